"""What people read of a run: console, charts, the line that repeats it, and the reference of faults.

It may import from every other room but ``cli``.
"""
