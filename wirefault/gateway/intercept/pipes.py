"""MCP servers that the subject starts over pipes: how their shim names them to the ingress. Pure.

The shim calls a host that exists only in the tap: at one port it carries the client's lines, which go through
the link's proxy, at the other the server's, which go straight to the gateway.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from wirefault.dialects.mcp import MCP
from wirefault.wiring.links import STDIO, Link, free_name

CLIENT_PORT, SERVER_PORT = 1, 2
_DOMAIN = ".pipe.wirefault"


class PipeServer(NamedTuple):
    """A server by its name and a digest of its command, which is the same in all runs."""

    name: str
    digest: str

    @property
    def host(self) -> str:
        return f"{self.name.replace('_', '-')}.{self.digest}{_DOMAIN}"


def pipe_server_in(host: str) -> PipeServer | None:
    """Return the server that a host names; None for any other host."""
    name, _, digest = host.removesuffix(_DOMAIN).partition(".")
    return PipeServer(name.replace("-", "_"), digest) if host.endswith(_DOMAIN) else None


def pipe_link(server: PipeServer, taken: Collection[str]) -> Link:
    """Make the link to that server, under a name that is not in ``taken``."""
    return Link(free_name(server.name, taken), STDIO, MCP.name, hosts=(server.host,), found=True)


def wired_pipe_link(links: Iterable[Link], server: PipeServer) -> Link | None:
    """Return the wiring's link to that server: by its command, else by its name, since a path in the command
    differs on another machine.
    """
    wired = [(pipe_server_in(host), link) for link in links if link.is_stdio for host in link.hosts]
    by_command = (link for known, link in wired if known == server)
    by_name = (link for known, link in wired if known and known.name == server.name)
    return next(by_command, None) or next(by_name, None)
