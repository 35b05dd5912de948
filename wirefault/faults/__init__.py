"""Faults at the gateway: what they are, the catalogue, fault sets, and which of them a try meets.

Pure. It may import ``core``, ``dialects``, ``toxiproxy`` and ``links``.
"""
