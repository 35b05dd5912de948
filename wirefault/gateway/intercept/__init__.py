"""Interception: connections that a subject opens to any host are brought to its links.

The ingress takes them and routes them; the gateway's listeners behind it end their TLS.
"""
