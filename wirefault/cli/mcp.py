"""``wirefault mcp``: a prefix for an MCP server's command in its client's configuration."""

from __future__ import annotations

import sys

import click

from wirefault.cli.help import Command, option


@click.command(
    "mcp",
    cls=Command,
    context_settings={"ignore_unknown_options": True},
    examples=(
        "wirefault mcp --link files",
        "wirefault mcp --lab ~/my-lab/state/lab.json --link files -- npx -y my-mcp-server",
    ),
)
@option("--lab", default="", help="Use the lab with this id or file.  [default: the one that is up]")
@option("--link", required=True, help="Use this link of the lab's wiring.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def mcp_command(lab: str, link: str, command: tuple[str, ...]) -> None:
    """Start an MCP server over stdio for its client, and send their messages through the lab.

    It replaces the server's command in the client's configuration. COMMAND, after --, starts the server;
    without it the wiring's links.NAME.mcp.command does.
    """
    from wirefault.subjects.stdio_shim.relay import run_shim

    sys.exit(run_shim(lab, link, command))
