"""Faults of what the model is shown: they change the request to it."""
