"""The agents under test: what a run asks of one, the kinds that a wiring names, and loading by name.

Imports from the rooms ``core`` to ``recovery``; the lab's own subject, ``agent``, is loaded by name like any
other, never imported.
"""
