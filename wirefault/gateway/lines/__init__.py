"""MCP over stdio: a client's and a server's lines as two TCP streams, with all faults of HTTP.

``exchange`` carries each message as the exchange that MCP over HTTP would make of it, so that faults, draws,
records and the end of an attempt are the same on both transports. Bytes that no fault changes pass unchanged.
"""
