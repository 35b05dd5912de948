"""Taps: how the connections of an unchanged subject reach the lab's ingress."""
