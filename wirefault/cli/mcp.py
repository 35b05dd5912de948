"""``wirefault mcp``: an MCP server's place in its client's configuration."""

from __future__ import annotations

import sys

import click


@click.command("mcp", context_settings={"ignore_unknown_options": True})
@click.option("--lab", default="", help="the lab's id, or its launcher's file; default: the one that is up")
@click.option("--link", required=True, help="the link of its wiring that leads to this server")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def mcp_command(lab: str, link: str, command: tuple[str, ...]) -> None:
    """Start an MCP server over stdio for its client, and lead what both say through the lab.

    It stands in the client's configuration, in the server's place. COMMAND, after --, starts the server;
    without one the wiring's links.NAME.mcp.command does.
    """
    from wirefault.subjects.stdio_shim.relay import carry

    sys.exit(carry(lab, link, command))
