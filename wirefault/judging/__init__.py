"""Scores episodes and runs by their history: outcomes, the account of their faults, the summary. Pure.

It imports from the rooms ``core`` to ``stats``.
"""
