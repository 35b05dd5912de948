"""The links between a subject and the servers that it calls, and the addresses of one lab.

Imports only ``core``.
"""
