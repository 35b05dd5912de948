"""One server of an MCP client, started here and led through the lab."""

from __future__ import annotations

from collections.abc import Sequence

from wirefault.core.user_errors import InputError
from wirefault.subjects.stdio_shim.lab_lane import find_lane
from wirefault.subjects.stdio_shim.relay import Relay
from wirefault.subjects.stdio_shim.server_process import ServerProcess
from wirefault.subjects.stdio_shim.way_through import open_way


def carry(lab: str, link: str, command: Sequence[str]) -> int:
    """Starts the command, or else the one that the wiring has for the link, and returns its exit code.

    Raises ``UserError`` if there is no such lab or link, or no way through it, and ``InputError`` without a
    command; the server is not started then.
    """
    lane = find_lane(lab, link)
    words = list(command) or lane.links[link].command
    if not words:
        raise InputError(f"no server: give its command after --, or in the wiring: links.{link}.mcp.command")
    way = open_way(lane, link)
    # paths in a wiring are taken from its folder, those of a client's configuration from the client's
    server = ServerProcess(words, "" if command else lane.folder)
    return Relay(way, server).run()
