"""Faults of the model's reply."""
