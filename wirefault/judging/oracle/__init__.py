"""Oracles: the ground truth of a prompt, and the verdict on an episode. Pure."""
