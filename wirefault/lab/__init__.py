"""Starts a lab on this machine, keeps it, takes it down; and what Compose needs beside its file.

Imports from the rooms ``core`` to ``subjects``; the lab's services and subject are started as processes.
"""
