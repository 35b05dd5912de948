"""Interception: connections that a subject opens to any host are routed to its links.

The ingress accepts and routes them; the gateway's listeners behind it end their TLS.
"""
