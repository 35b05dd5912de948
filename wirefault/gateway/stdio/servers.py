"""The servers over stdio that are there, and which of them a link's next connection belongs to."""

from __future__ import annotations

from typing import Protocol

from wirefault.gateway.stdio.server_stream import ServerStream


class OpenStreams(Protocol):
    """The streams of a client and its server."""

    def client_ended(self, size: int) -> None:
        """The client sends no more than that many bytes, which may still be on their way."""

    def close(self) -> None:
        """Ends both."""


class StdioServers:
    """Of each link the server whose client is expected, and by their tokens those whose client is there.

    ``wirefault mcp`` has its server announced just before it dials the link's proxy, one at a time: since
    Toxiproxy stands between, nothing of the client's connection itself tells whose it is.
    """

    def __init__(self, lab_id: str) -> None:
        self.lab_id = lab_id
        self._next: dict[str, ServerStream] = {}
        self._open: dict[str, OpenStreams] = {}

    def expect_client(self, link: str, server: ServerStream) -> None:
        """The link's next connection is that of the server's client; one expected before has not come."""
        self._next[link] = server

    def take(self, link: str) -> ServerStream | None:
        """The server whose client a connection accepted now is; None if none is expected."""
        server = self._next.pop(link, None)
        return None if server is None or server.lost else server

    def opened(self, token: str, streams: OpenStreams) -> None:
        self._open[token] = streams

    def closed(self, token: str) -> None:
        self._open.pop(token, None)

    def client_ended(self, token: str, size: int) -> None:
        """The client has closed its stream after that many bytes.

        Said beside the stream, since a proxy on the way cannot close one direction alone.
        """
        streams = self._open.get(token)
        if streams is not None:
            streams.client_ended(size)

    def close(self) -> None:
        """Ends all that are there."""
        for streams in tuple(self._open.values()):
            streams.close()
