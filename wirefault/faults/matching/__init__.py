"""Finds the armed faults that a try meets. Pure."""
