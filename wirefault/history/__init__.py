"""The history of a run: its typed events, who writes them to disk and seals them, who reads them, and the
logs for people.

It imports from the rooms ``core`` to ``settings``.
"""
