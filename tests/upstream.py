"""Servers for tests: a WSGI application, or a function called for each connection of a listening socket."""

from __future__ import annotations

import json
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from wsgiref.types import WSGIApplication

import waitress
from flask import Flask, request

from tests.support import PATIENCE_S
from wirefault.core.identity import Identity, parse_baggage
from wirefault.core.sockets import LOOPBACK, Address, bind, bound_address
from wirefault.dialects.http import Reply, head_bytes

FREE = Address(LOOPBACK, 0)


@contextmanager
def serving(app: WSGIApplication, threads: int = 2, at: Address = FREE) -> Iterator[Address]:
    """Serve the application by the server that the tools use; yields its address."""
    listener = bind(at)
    server = waitress.create_server(app, sockets=[listener], threads=threads)
    thread = threading.Thread(target=server.run)
    thread.start()
    yield bound_address(listener)
    server.trigger.pull_trigger(server.close)  # in its own thread, which may be about to wait for its sockets
    thread.join(PATIENCE_S)


@contextmanager
def counting_shop() -> Iterator[tuple[str, Counter[str]]]:
    """Its address, and how many requests it executed for each item."""
    executed: Counter[str] = Counter()
    app = Flask("shop")

    @app.post("/orders")
    def order() -> Any:
        executed[request.get_json()["item"]] += 1
        return {"ordered": True}, 201

    with serving(app) as address:
        yield address.url, executed


class Upstream:
    """Calls ``serve`` with the socket of each connection, each in a thread.

    The socket is closed when ``serve`` returns. ``ignored`` are errors of ``serve`` that mean that the other
    side has left; any other error fails the test.
    """

    def __init__(
        self,
        serve: Callable[[socket.socket], object],
        ignored: tuple[type[Exception], ...] = (OSError,),
    ) -> None:
        self._serve = serve
        self._ignored = ignored
        self._listener = bind(FREE)
        self.address = bound_address(self._listener)
        self.accepted = 0
        self._connections: list[socket.socket] = []
        self._serving: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def __enter__(self) -> Upstream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End every connection and wait for its thread."""
        self._stop_accepting()
        for connection in self._connections:
            with suppress(OSError):  # already closed
                connection.shutdown(socket.SHUT_RDWR)
        self.drain()

    def drain(self) -> None:
        """Accept no more connections and wait until ``serve`` has returned from the open ones."""
        self._stop_accepting()
        for thread in self._serving:
            thread.join(PATIENCE_S)

    def _stop_accepting(self) -> None:
        with suppress(OSError):  # already closed
            self._listener.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:  # the listener was shut down
                return
            self.accepted += 1
            self._connections.append(connection)
            self._serving.append(threading.Thread(target=self._run, args=(connection,), daemon=True))
            self._serving[-1].start()

    def _run(self, connection: socket.socket) -> None:
        with connection, suppress(*self._ignored):
            self._serve(connection)


@dataclass(frozen=True)
class ReceivedRequest:
    """A complete HTTP/1.1 request. Names of ``headers`` are in lower case; ``raw`` has all its bytes."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    raw: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def identity(self) -> Identity:
        """The try that the request's baggage names."""
        identity = parse_baggage(self.headers["baggage"])
        assert identity is not None
        return identity

    @property
    def key(self) -> str | None:
        """The idempotency key."""
        return self.headers.get("idempotency-key")


def requests_of(connection: socket.socket) -> Iterator[ReceivedRequest]:
    """Yield each request until the client closes.

    Raises ``OSError`` if the client closes in the middle of a request.
    """
    rest = b""
    while rest := rest or connection.recv(65536):
        head, rest = read_head(connection, rest)
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        fields = (line.partition(":") for line in lines)
        headers = {name.lower(): value.strip() for name, _, value in fields}
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body, framed, rest = _read_chunks(connection, rest)
        else:
            body, rest = _read_sized(connection, int(headers.get("content-length", 0)), rest)
            framed = body
        method, target, _ = first.split(" ")
        yield ReceivedRequest(method, target, headers, body, head + framed)


def _read_sized(connection: socket.socket, size: int, start: bytes) -> tuple[bytes, bytes]:
    start += read_all(connection, max(size - len(start), 0), exactly=True)
    return start[:size], start[size:]


def _read_chunks(connection: socket.socket, rest: bytes) -> tuple[bytes, bytes, bytes]:
    """The decoded body, its bytes on the wire, and the bytes after it."""
    body, framed, size = b"", b"", -1
    while size:
        line, rest = _read_until(connection, b"\r\n", rest)
        size = int(line.partition(b";")[0], 16)
        data, rest = _read_sized(connection, size + 2 if size else 0, rest)
        body, framed = body + data[:size], framed + line + data
    while line != b"\r\n":  # the trailer ends with an empty line
        line, rest = _read_until(connection, b"\r\n", rest)
        framed += line
    return body, framed, rest


def _read_until(connection: socket.socket, mark: bytes, start: bytes) -> tuple[bytes, bytes]:
    """The bytes up to and including the mark, and the bytes after it."""
    while mark not in start:
        data = connection.recv(65536)
        if not data:
            raise OSError("closed too early")
        start += data
    before, _, rest = start.partition(mark)
    return before + mark, rest


def read_head(connection: socket.socket, start: bytes = b"") -> tuple[bytes, bytes]:
    """A header block with its empty line, and the bytes after it that have arrived."""
    return _read_until(connection, b"\r\n\r\n", start)


def read_all(connection: socket.socket, size: int | None = None, *, exactly: bool = False) -> bytes:
    """Read to the end of the connection, or until ``size`` bytes have arrived.

    ``exactly``: an earlier end raises ``OSError``.
    """
    data = bytearray()
    while size is None or len(data) < size:
        part = connection.recv(1 << 20 if size is None else size - len(data))
        if not part:
            if exactly:
                raise OSError("closed too early")
            break
        data += part
    return bytes(data)


def whole(reply: Reply) -> tuple[bytes, bytes]:
    """Its header block, with the right length, and its body."""
    return head_bytes(reply, len(reply.body)), reply.body
