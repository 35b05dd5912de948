"""What every other room builds on: who a try is, keyed draws, strict readers, SQLite, sockets, lifelines.

Imports from no other room, and knows nothing of agents, faults or labs.
"""
