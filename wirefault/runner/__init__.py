"""A run from its first request to its summary: an episode for each prompt, with one or more attempts.

Imports from ``core`` to ``lab``, and no agent: it takes a ``Subject`` and judges by the history and the
worlds.
"""
