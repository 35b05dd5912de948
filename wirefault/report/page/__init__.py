"""The page: a run, an experiment or an audit as one self-contained HTML file."""
