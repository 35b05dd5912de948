"""An upstream that answers every request with the next of its replies and counts them."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httptools

from tests.gateway.lab import Upstream
from windtunnel.core.sockets import Address
from windtunnel.dialects.http import Reply, whole


class Answering:
    """Keep-alive HTTP. ``replies`` are given in turn, the last for ever; ``bodies`` are what was asked."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self._replies = list(replies)
        self.bodies: list[bytes] = []
        self.targets: list[str] = []
        self._upstream = Upstream(self._serve)

    @property
    def address(self) -> Address:
        return self._upstream.address

    @property
    def executed(self) -> int:
        return len(self.bodies)

    def close(self) -> None:
        self._upstream.close()

    def _serve(self, connection: socket.socket) -> None:
        reader = _Reader(lambda request: connection.sendall(self._answer(request)))
        while data := connection.recv(65536):
            reader.feed(data)

    def _answer(self, request: _Reader) -> bytes:
        self.targets.append(request.target.decode("latin-1"))
        self.bodies.append(bytes(request.body))
        reply = self._replies[min(self.executed, len(self._replies)) - 1]
        return b"".join(whole(reply))


class _Reader:
    """Calls ``answer`` for each whole request."""

    def __init__(self, answer: Callable[[_Reader], Any]) -> None:
        self._answer = answer
        self._parser = httptools.HttpRequestParser(self)
        self.feed = self._parser.feed_data

    def on_message_begin(self) -> None:
        self.target = b""
        self.body = bytearray()

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_body(self, data: bytes) -> None:
        self.body += data

    def on_message_complete(self) -> None:
        self._answer(self)


@contextmanager
def answering(*replies: Reply) -> Iterator[Answering]:
    upstream = Answering(replies)
    try:
        yield upstream
    finally:
        upstream.close()
