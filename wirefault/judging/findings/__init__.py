"""Findings about a run in words, also without an oracle; ``rules`` lists all rules."""
