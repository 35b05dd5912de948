"""MCP over stdio: a client's and a server's lines as two TCP streams, with the faults of HTTP.

Each line of the client and its response are an exchange, as over HTTP, so that draws, records and the end of
an attempt are the same. ``carrier`` turns the replies of faults into lines. Other lines keep their bytes.
"""
