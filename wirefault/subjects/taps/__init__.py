"""Taps: how the connections of a subject that knows nothing of the lab come to the lab's ingress."""
