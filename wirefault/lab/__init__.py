"""Start, keep and stop a lab on this machine; helpers for Compose.

Imports from ``core`` to ``subjects``; the lab's services and subject are started as processes.
"""
