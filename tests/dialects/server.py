"""A tiny model: it speaks every dialect of models, streaming included."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.dialects.forms import Form
from tests.upstream import Upstream, requests_of, whole
from wirefault.dialects.base import ModelReply
from wirefault.dialects.http import Reply, chunk, head_bytes, split_events
from wirefault.dialects.registry import dialect_of

Script = Callable[[dict[str, Any]], ModelReply]


class ModelServer:
    """Answer each request with ``script(body)``; ``rewrite`` may change the reply."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.rewrite: Callable[[Form, Reply], Reply] = lambda form, reply: reply
        self.bodies: list[dict[str, Any]] = []
        self.upstream = Upstream(self._serve)
        self.address = self.upstream.address

    def _serve(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # each event is sent separately
        for request in requests_of(connection):
            body = request.json
            self.bodies.append(body)
            path = request.target.partition("?")[0]
            streams = bool(body.get("stream")) or ":stream" in path or path.endswith("-stream")
            form = Form(dialect_of(path, of_model=True), streams)
            reply = self.rewrite(form, form.reply(self.script(body)))
            for part in _events(reply) if form.stream else whole(reply):
                connection.sendall(part)


def _events(reply: Reply) -> Iterator[bytes]:
    """The header block, and each event as its own chunk."""
    yield head_bytes(reply, None)
    yield from map(chunk, (*split_events(reply.body), b""))


@contextmanager
def model_server(script: Script) -> Iterator[ModelServer]:
    server = ModelServer(script)
    with server.upstream:
        yield server
