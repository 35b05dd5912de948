"""Figures, measured on this machine in this run: ``make bench``."""
