"""Reports for people: console, charts, the line that repeats a run, and the catalogue of faults.

It may import from every other room but ``cli``.
"""
