"""Benchmarks: figures measured on this machine in this run, by ``make bench``."""
