"""``state/state.db``, the interface between runner and proxy manager; locks; side effects.

Imports from the rooms ``core`` to ``history``.
"""
