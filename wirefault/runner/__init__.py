"""A run from its first request to its summary: every prompt an episode, every episode one or more attempts.

Imports from the rooms ``core`` to ``lab``, and no agent: it takes a ``Subject``, and judges what that did by
the history and the worlds.
"""
