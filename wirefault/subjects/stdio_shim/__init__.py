"""``wirefault mcp``: replaces a server in an MCP client's configuration and leads it through the lab.

Mostly standard library, since it starts with each server.
"""
