"""Faults of what a tool's result says."""
