"""Benchmarks, which ``make bench`` measures on this machine."""
