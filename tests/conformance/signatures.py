"""A client of an intercepting gateway behind the proxy, and both sides' records of a try."""

from __future__ import annotations

import socket
import ssl
import time
from dataclasses import dataclass
from typing import Any, Literal, cast

from tests.gateway.lab import Lab
from tests.gateway.secure_socket import HOST, SecureSocket
from tests.upstream import read_head
from wirefault.history.events import ConnectionEnded, Exchange, ToolTry
from wirefault.judging.requests import Request

PATIENCE_MS = 700.0
REPLY_BYTES = 6000
PADDING = b"p" * 3000
Transport = Literal["plain", "fresh", "kept"]
TRANSPORTS: tuple[Transport, ...] = ("plain", "fresh", "kept")


class CountingSocket(socket.socket):
    """Counts bytes as the ingress would in this place."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = self.received = 0
        self.opened = self.first_sent = time.perf_counter()
        self.first_received: float | None = None
        self.ended: Literal["", "fin", "rst", "refused"] = ""

    def connect(self, address: Any) -> None:
        try:
            super().connect(address)
        except ConnectionRefusedError:
            self.ended = "refused"
            raise

    def sendall(self, data: Any, flags: int = 0) -> None:
        if data and not self.sent:
            self.first_sent = time.perf_counter()
        self.sent += len(data)
        try:
            super().sendall(data, flags)
        except (ConnectionResetError, BrokenPipeError):
            self.ended = "rst"
            raise

    def recv(self, size: int, flags: int = 0) -> bytes:
        try:
            data = super().recv(size, flags)
        except ConnectionResetError:
            self.ended = "rst"
            raise
        if data and self.first_received is None:
            self.first_received = time.perf_counter()
        self.received += len(data)
        self.ended = self.ended if data else "fin"
        return data


@dataclass
class SeenTry:
    """``tried``: as the client and the gateway recorded it; ``connection``: as the ingress would have."""

    tried: Request
    connection: ConnectionEnded
    exchanges: list[Exchange]


class OneTry:
    """One try over fresh TLS, kept-alive TLS or plain HTTP."""

    def __init__(self, lab: Lab, address: tuple[str, int], transport: Transport) -> None:
        self._lab, self._address, self._transport = lab, address, transport
        self._plain = CountingSocket()
        self._socket: socket.socket | None = None
        if transport == "kept":
            self._ask(call=1)

    def _ask(self, call: int) -> None:
        """Raises ``OSError`` if the whole reply does not arrive, ``EOFError`` if it ends early."""
        if self._socket is None:
            self._plain.settimeout(PATIENCE_MS / 1000)
            self._plain.connect(self._address)
            self._socket = self._plain
            if self._transport != "plain":
                secure = SecureSocket(self._plain, self._lab.pem)
                self._socket = cast(socket.socket, secure)
        lines = [b"GET /a HTTP/1.1", b"Host: " + HOST.encode(), b"X-Padding: " + PADDING]
        lines += [f"{key}: {value}".encode() for key, value in self._lab.identity(call=call).items()]
        self._socket.sendall(b"\r\n".join([*lines, b"", b""]))
        _, body = read_head(self._socket)
        while len(body) < REPLY_BYTES:
            piece = self._socket.recv(REPLY_BYTES)
            if not piece:
                raise EOFError
            body += piece

    def _error(self, call: int, deadline: float) -> str | None:
        """The client's name for the end of the try; bounds each read and the whole try."""
        try:
            self._ask(call)
        except TimeoutError:
            return "read_timeout"
        except ConnectionRefusedError:
            return "connection_refused"
        except (ConnectionResetError, BrokenPipeError):
            return "connection_reset"
        except (EOFError, ssl.SSLError, OSError):
            return "connection_closed"
        return "read_timeout" if time.perf_counter() > deadline else None

    def make(self) -> tuple[float, float, str | None]:
        """Start (in s since the epoch), duration in ms and error of the try."""
        start, began = time.time(), time.perf_counter()
        self._began = began
        error = self._error(2, began + PATIENCE_MS / 1000)
        ms = (time.perf_counter() - began) * 1000
        self._plain.close()
        return start, ms, error

    def seen(self, start: float, ms: float, error: str | None) -> SeenTry:
        """End the attempt, and with it whatever the toxic still holds back."""
        plain = self._plain
        self._lab.settle(0.5)
        elapsed_ms = ms - (plain.first_sent - self._began) * 1000
        exchanges = [event for event in self._lab.recorded() if isinstance(event, Exchange)]
        exchange = next((exchange for exchange in exchanges if exchange.call == 2), None)
        tls: Literal["", "fresh"] = "" if self._transport == "plain" else "fresh"
        record = ToolTry(
            episode="e1",
            attempt=1,
            tool="search",
            link="search",
            fingerprint="",
            call=2,
            try_=1,
            start=start,
            end=start + ms / 1000,
            ms=ms,
            timeout_ms=PATIENCE_MS,
            status=None,
            error=error,
            reply_bytes=0,
            write=False,
            idempotency_key=None,
        )
        tried = Request((), exchange, record, tls=tls)
        first = plain.first_received
        connection = ConnectionEnded(
            **{"t": start + ms / 1000, "link": "search", "episode": "e1", "attempt": 1, "opened": start},
            **{
                "ms": elapsed_ms,
                "sent": plain.sent,
                "received": plain.received,
            },
            first_byte_ms=None if first is None else (first - plain.first_sent) * 1000,
            ended_by="proxy" if plain.ended else "client",
            how=plain.ended or "fin",
            **{"tls": bool(tls), "host": HOST, "port": 443, "tap": "proxy"},
        )
        return SeenTry(tried, connection, exchanges)
