"""Which server the next connection on a link's listener belongs to.

``windtunnel mcp`` says so just before it dials the link's proxy, one at a time: Toxiproxy stands between, so
that nothing of the connection itself tells who has opened it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from windtunnel.core.sockets import Address


@dataclass(frozen=True)
class ExpectedServer:
    """Where the server's streams are to be had, and the ``token`` that is sent there first, in a line."""

    address: Address
    token: str


class OpenStreams(Protocol):
    """The streams of a client and its server."""

    def client_ended(self, size: int) -> None:
        """The client sends no more than that many bytes, which may still be on their way."""

    def close(self) -> None:
        """Ends both."""


class ExpectedServers:
    """Of each link the server that is expected, and every one that is there, by its token."""

    def __init__(self) -> None:
        self._next: dict[str, ExpectedServer] = {}
        self._open: dict[str, OpenStreams] = {}

    def expect(self, link: str, server: ExpectedServer) -> None:
        """The link's next connection belongs to that server; one expected before has not come."""
        self._next[link] = server

    def take(self, link: str) -> ExpectedServer | None:
        """The server that a connection accepted now belongs to; None if nobody has said."""
        return self._next.pop(link, None)

    def opened(self, token: str, streams: OpenStreams) -> None:
        self._open[token] = streams

    def closed(self, token: str) -> None:
        self._open.pop(token, None)

    def client_ended(self, token: str, size: int) -> bool:
        """The client has closed its stream after that many bytes; whether its server is there.

        Said beside the stream, since a proxy on the way cannot close one direction alone.
        """
        streams = self._open.get(token)
        if streams is not None:
            streams.client_ended(size)
        return streams is not None

    def close(self) -> None:
        """Ends all that are there."""
        for streams in tuple(self._open.values()):
            streams.close()
