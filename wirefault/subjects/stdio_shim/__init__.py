"""``wirefault mcp``: stands in an MCP client's configuration for a server, and leads it through the lab.

Standard library only, and little of that: it starts with each server that a client starts.
"""
