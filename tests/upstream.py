"""The one server that tests write by hand: a listening socket, and a function for each connection to it."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tests.support import PATIENCE_S
from wirefault.core.identity import Identity, parse_baggage
from wirefault.core.sockets import LOOPBACK, Address, bind, bound_address

FREE = Address(LOOPBACK, 0)


class Upstream:
    """Calls ``serve`` with the socket of each connection, in a thread of its own.

    The socket is closed when ``serve`` returns. ``ignored`` are the errors of ``serve`` that only say that
    the other side has left; any other error fails the test.
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
        """Ends every connection, and waits for their threads."""
        self._stop_accepting()
        for connection in self._connections:
            with suppress(OSError):  # it is closed already
                connection.shutdown(socket.SHUT_RDWR)
        self.drain()

    def drain(self) -> None:
        """Takes no more connections, and waits until ``serve`` has returned from those that there are."""
        self._stop_accepting()
        for thread in self._serving:
            thread.join(PATIENCE_S)

    def _stop_accepting(self) -> None:
        with suppress(OSError):  # it is closed already
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
    """A whole HTTP/1.1 request. The names of its ``headers`` are in lower case; ``raw`` is all its bytes."""

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
        """The try that the request says it belongs to."""
        identity = parse_baggage(self.headers["baggage"])
        assert identity is not None
        return identity

    @property
    def key(self) -> str | None:
        """Its idempotency key."""
        return self.headers.get("idempotency-key")


def requests_of(connection: socket.socket) -> Iterator[ReceivedRequest]:
    """Each request that comes, until the client closes.

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
    """What the chunks of a body carry, the body as it stands on the wire, and what came after it."""
    body, framed, size = b"", b"", -1
    while size:
        line, rest = _read_until(connection, b"\r\n", rest)
        size = int(line.partition(b";")[0], 16)
        data, rest = _read_sized(connection, size + 2 if size else 0, rest)
        body, framed = body + data[:size], framed + line + data
    while line != b"\r\n":  # the trailer, which an empty line ends
        line, rest = _read_until(connection, b"\r\n", rest)
        framed += line
    return body, framed, rest


def _read_until(connection: socket.socket, mark: bytes, start: bytes) -> tuple[bytes, bytes]:
    """Everything up to the mark, with it, and what came after it."""
    while mark not in start:
        data = connection.recv(65536)
        if not data:
            raise OSError("closed too early")
        start += data
    before, _, rest = start.partition(mark)
    return before + mark, rest


def read_head(connection: socket.socket, start: bytes = b"") -> tuple[bytes, bytes]:
    """A header block, its empty line included, and what came with it of the rest."""
    return _read_until(connection, b"\r\n\r\n", start)


def read_all(connection: socket.socket, size: int | None = None, *, exactly: bool = False) -> bytes:
    """Everything up to the end of the connection, or until that many bytes have come.

    ``exactly``: an end before that is an ``OSError``.
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
