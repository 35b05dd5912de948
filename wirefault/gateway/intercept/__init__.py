"""How connections that a subject opens wherever it likes come to its links.

The front takes them; the gateway's listeners behind it end their TLS.
"""
