"""Faults of HTTP itself, on any link."""
