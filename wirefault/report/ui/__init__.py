"""The recorded runs as pages of a local server, read-only."""
