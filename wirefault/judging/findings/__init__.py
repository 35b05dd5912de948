"""What a run shows in words, also without an oracle: one rule a file, all of them listed in ``rules``."""
