"""What a client of an intercepted link speaks: told by its first bytes, and HTTP/2 is refused."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import cast
from urllib.parse import urlsplit

from wirefault.core.sockets import LOOPBACK
from wirefault.gateway.connection.connection import ClientConnection
from wirefault.gateway.intercept.authority import Authority
from wirefault.gateway.intercept.tls_connection import TlsConnection
from wirefault.gateway.link_listener import LinkListener
from wirefault.wiring.link import Link

_TLS_HANDSHAKE = 0x16
_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n"
# An empty SETTINGS frame, with which an HTTP/2 server begins, and GOAWAY with the error HTTP_1_1_REQUIRED.
_HTTP_1_1_REQUIRED = bytes.fromhex("000000 04 00 00000000 000008 07 00 00000000 00000000 0000000d")
_ONLY_HTTP2 = (
    "a client speaks HTTP/2 alone, which cannot be intercepted: have it speak HTTP/1.1, or give it the link's"
    " address"
)


class InterceptedLinks:
    """Listens for clients that mean to reach another host, by TLS or without, in the name of that host.

    ``tell`` takes what a person should know, in words.
    """

    def __init__(self, authority: Authority, tell: Callable[[str], None]) -> None:
        self._authority = authority
        self._tell = tell

    @property
    def pem(self) -> str:
        """The certificate that a client trusts in order to be intercepted."""
        return self._authority.pem

    def protocols(self, listener: LinkListener) -> Callable[[], asyncio.Protocol]:
        """Makes the protocol of each connection that the link's listener accepts."""
        context = partial(self._authority.context, _host_of(listener.link))
        return lambda: _FirstBytes(listener, context, self._tell)


def _host_of(link: Link) -> str:
    """In whose name the link answers a client that names no host."""
    named = [host for host in link.hosts if not host.startswith("*")]
    return urlsplit(f"//{named[0]}" if named else link.upstream).hostname or LOOPBACK


class _FirstBytes(asyncio.Protocol):
    """Reads a connection until it is known what is spoken there, and hands it over.

    The connection belongs to its attempt from the begin, so that one whose handshake is held up by a toxic
    is ended with it.
    """

    def __init__(
        self, listener: LinkListener, context: Callable[[], ssl.SSLContext], tell: Callable[[str], None]
    ) -> None:
        self._name = listener.name
        self._context = context
        self._tell = tell
        self._connection = ClientConnection(listener)
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
        if self._connection.client.said_all:
            return  # its attempt ended before the first byte came: a handshake cannot be answered any more
        tls = self._tls = TlsConnection(self._transport, self._context(), self, self._on_no_tls)
        self._connection.client.start_tls(tls)
        self._transport.set_protocol(tls)
        tls.data_received(data)

    def _on_no_tls(self, reason: str) -> None:
        self._tell(
            f"a client of the link {self._name} ended its TLS handshake ({reason}):"
            " it may not trust the lab's authority"
        )

    def _hand_over(self) -> None:
        start, self._start = self._start, b""
        (self._tls or self._transport).set_protocol(self._connection)
        self._connection.data_received(start)

    def _refuse_http2(self) -> None:
        self._tell(f"the link {self._name}: {_ONLY_HTTP2}")
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
