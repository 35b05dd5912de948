"""Oracles: the ground truth of a prompt, and how an episode is held against it. Pure."""
