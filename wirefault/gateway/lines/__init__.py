"""MCP over stdio: a client's and a server's lines as two TCP streams, with every fault that HTTP has.

A client's message is carried out as the HTTP exchange that MCP over HTTP would make of it (``line_exchange``)
by the same code, so that faults, draws, records and the end of an attempt are the same on both transports.
Bytes that no fault changes go on as they came.
"""
