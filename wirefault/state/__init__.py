"""``state/state.db``, the interface between runner and proxy manager, and the manager's token.

Imports from the rooms ``core`` to ``history``.
"""
