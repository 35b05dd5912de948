"""Fault sets: read from files, presets and Python objects, validated, scaled, written as canonical text.

Imports ``core``, ``dialects``, ``toxiproxy``, ``links``, the fault's base and the catalogue.
"""
