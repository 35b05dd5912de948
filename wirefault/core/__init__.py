"""Foundations of every other room: identity of a try, keyed draws, strict readers, SQLite, sockets,
lifelines.

Imports no other room and knows nothing of agents, faults or labs.
"""
