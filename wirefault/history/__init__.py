"""The history of a run: typed events, their writers, readers and seal, and the logs for people.

Imports from the rooms ``core`` to ``settings``.
"""
