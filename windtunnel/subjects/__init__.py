"""Subjects, the agents under test: what a run asks of one, and how one is loaded by its name.

Imports from the rooms ``core`` to ``recovery``; the lab's own subject, ``agent``, is loaded by name like any
other, never imported.
"""
