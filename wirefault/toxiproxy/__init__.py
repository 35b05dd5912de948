"""Everything about Toxiproxy: its client, an embedded server, the toxics, and those that a seed draws.

It imports from ``core`` alone.
"""
