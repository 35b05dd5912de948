"""Everything about Toxiproxy: its client, an embedded server, the toxics, and the toxics that a seed draws.

It imports only from ``core``.
"""
