"""Tools that are functions of a Python process: each call crosses the lab and returns to the process.

Standard library only, from Python 3.9 on: it runs inside the subject, whose environment may lack
``wirefault``.
"""
