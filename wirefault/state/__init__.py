"""``state/state.db``, through which runner and proxy manager speak to each other, and the manager's token.

Imports from the rooms ``core`` to ``history``.
"""
