"""Finds the armed faults that a try meets. Pure; it may import what ``faults`` may, and ``faults.sets``."""
