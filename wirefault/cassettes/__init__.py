"""Cassettes: what a real model answered, kept in files that answer in its place later.

Imports from the rooms ``core`` to ``settings``.
"""
