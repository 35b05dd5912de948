"""What a client of an intercepted link speaks: told by its first bytes, and HTTP/2 is refused."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from windtunnel.gateway.connection.connection import ClientConnection
from windtunnel.gateway.intercept.tls_connection import TlsConnection
from windtunnel.gateway.lane import LinkListener

_TLS_HANDSHAKE = 0x16
_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n"
# An empty SETTINGS frame, with which an HTTP/2 server begins, and GOAWAY with the error HTTP_1_1_REQUIRED.
_HTTP_1_1_REQUIRED = bytes.fromhex("000000 04 00 00000000 000008 07 00 00000000 00000000 0000000d")
_ONLY_HTTP2 = (
    "a client speaks HTTP/2 alone, which cannot be intercepted: have it speak HTTP/1.1, or give it the link's"
    " address"
)


@dataclass(frozen=True)
class InterceptedLink:
    """The listener of a link whose clients mean to reach another host, by TLS or without.

    ``context()``: how that host speaks TLS. ``tell``: takes what a person should know, in words.
    """

    listener: LinkListener
    context: Callable[[], ssl.SSLContext]
    tell: Callable[[str], None]

    def protocol(self) -> asyncio.Protocol:
        """For a connection that was accepted."""
        return _FirstBytes(self)


class _FirstBytes(asyncio.Protocol):
    """Reads a connection until it is known what is spoken there, and hands it over.

    The connection belongs to its attempt from the begin, so that one whose handshake is held up by a toxic
    is ended with it.
    """

    def __init__(self, link: InterceptedLink) -> None:
        self._link = link
        self._connection = ClientConnection(link.listener)
        self._tls: TlsConnection | None = None
        self._start = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connection.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._tls is None and data[0] == _TLS_HANDSHAKE and not self._start:
            self._start_tls(data)
            return
        self._start += data
        if self._start.startswith(_HTTP2_PREFACE):
            self._refuse_http2()
        elif not _HTTP2_PREFACE.startswith(self._start):
            self._hand_over()

    def _start_tls(self, data: bytes) -> None:
        tls = self._tls = TlsConnection(self._transport, self._link.context(), self, self._on_no_tls)
        self._connection.client.start_tls(tls)
        self._transport.set_protocol(tls)
        tls.data_received(data)

    def _on_no_tls(self, reason: str) -> None:
        name = self._link.listener.name
        self._link.tell(
            f"a client of the link {name} ended its TLS handshake ({reason}):"
            " it may not trust the lab's authority"
        )

    def _hand_over(self) -> None:
        start, self._start = self._start, b""
        (self._tls or self._transport).set_protocol(self._connection)
        self._connection.data_received(start)

    def _refuse_http2(self) -> None:
        self._link.tell(f"the link {self._link.listener.name}: {_ONLY_HTTP2}")
        self._start = b""
        self._connection.client.write(_HTTP_1_1_REQUIRED)
        self._connection.client.close(unread=True)

    def eof_received(self) -> bool:
        if self._start:
            self._hand_over()
        return self._connection.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._connection.connection_lost(error)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()
