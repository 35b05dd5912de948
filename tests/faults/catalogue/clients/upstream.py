"""An upstream that answers every request with the next of its replies and counts them."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.upstream import Upstream, requests_of, whole
from wirefault.dialects.http import Reply


class Answering:
    """Keep-alive HTTP. ``replies`` are given in turn, the last for ever; ``bodies`` are the requests'."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self._replies = replies
        self.bodies: list[bytes] = []
        self.upstream = Upstream(self._serve)
        self.address = self.upstream.address

    @property
    def executed(self) -> int:
        """Number of received requests."""
        return len(self.bodies)

    def _serve(self, connection: socket.socket) -> None:
        for request in requests_of(connection):
            self.bodies.append(request.body)
            reply = self._replies[min(self.executed, len(self._replies)) - 1]
            connection.sendall(b"".join(whole(reply)))


@contextmanager
def answering(*replies: Reply) -> Iterator[Answering]:
    answering = Answering(replies)
    with answering.upstream:
        yield answering
