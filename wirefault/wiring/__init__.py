"""The links between a subject and what it calls: their catalog, and the addresses of one lab.

Imports ``core`` alone.
"""
