"""How connections that a subject opens wherever it likes come to its links.

The ingress takes them; the gateway's listeners behind it end their TLS.
"""
