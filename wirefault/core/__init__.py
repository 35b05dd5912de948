"""Foundations of all other rooms: identity, keyed draws, strict readers, files, SQLite, processes, sockets.

It imports no other room.
"""
