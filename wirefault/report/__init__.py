"""Reports for people: console, charts, the command that repeats a run, and the catalogue of faults.

May import from every other room except ``cli``.
"""
