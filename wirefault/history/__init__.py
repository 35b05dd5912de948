"""The history of a run: typed events, their writers, readers and seal, and the readable logs.

Imports from the rooms ``core`` to ``settings``.
"""
