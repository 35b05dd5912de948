"""Findings about a run, as sentences, with or without an oracle; ``rules`` lists all rules."""
