"""A connection's first bytes on a link: HTTP/1, TLS that the gateway ends, or HTTP/2 passed on unread."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from wirefault.core.sockets import LOOPBACK
from wirefault.gateway.exchange.connection import ClientConnection
from wirefault.gateway.intercept.arrival import (
    HTTP2_PREFACE,
    ClientProtocol,
    client_protocol,
    speaks_only_http2,
)
from wirefault.gateway.intercept.http2 import Http2Tunnel, tunnel_endpoint
from wirefault.gateway.intercept.splice import TLS_RECORD
from wirefault.gateway.intercept.tls import TlsConnection
from wirefault.gateway.lane import LinkListener
from wirefault.history.events import WhyNotIntercepted
from wirefault.wiring.links import Link

if TYPE_CHECKING:
    from wirefault.gateway.intercept.certificate_authority import Authority

# An empty SETTINGS frame, which begins an HTTP/2 connection, and GOAWAY with the error HTTP_1_1_REQUIRED.
_HTTP_1_1_REQUIRED = bytes.fromhex("000000 04 00 00000000 000008 07 00 00000000 00000000 0000000d")
# A client that does not want the certificate closes at once; later it may have left for any other reason.
_REFUSAL_S = 5.0
_ONLY_HTTP2 = "a client speaks only HTTP/2, but the lab's own servers and cassettes speak HTTP/1.1"
# Returns the TLS settings of the link's server; ``http2``: for a client that speaks nothing else.
Contexts = Callable[[bool], ssl.SSLContext]


class InterceptedLinks:
    """Accepts clients that meant to reach another host, with TLS or without, under that host's name.

    ``warn`` gets one sentence for the user.
    """

    def __init__(self, authority: Authority, warn: Callable[[str], None]) -> None:
        self._authority = authority
        self._warn = warn

    @property
    def pem(self) -> str:
        """The certificate that a client must trust to be intercepted."""
        return self._authority.pem

    def protocols(self, listener: LinkListener) -> Callable[[], asyncio.Protocol]:
        """Return a factory for the protocol of each connection to the link's listener."""
        contexts = partial(self._authority.context, _host_of(listener.link))
        return lambda: FirstBytes(listener, contexts, self._warn)


def _host_of(link: Link) -> str:
    """Return the host whose certificate the link shows to a client that names none."""
    named = [host for host in link.hosts if not host.startswith("*")]
    return urlsplit(f"//{named[0]}" if named else link.upstream).hostname or LOOPBACK


class FirstBytes(asyncio.Protocol):
    """Reads a connection until its protocol is known, then hands it over.

    The connection belongs to its attempt from the start, so that one whose handshake a toxic delays ends with
    it. Without ``contexts`` the gateway ends no TLS: only a client of HTTP/2 may speak it, with the upstream.
    """

    def __init__(
        self, listener: LinkListener, contexts: Contexts | None, warn: Callable[[str], None]
    ) -> None:
        self._listener = listener
        self._name = listener.name
        self._contexts = contexts
        self._warn = warn
        self._connection = ClientConnection(listener)
        self._tls: TlsConnection | None = None
        self._start = b""
        self._refusal_noted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connection.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        start = self._start = self._start + data
        if self._tls is None and start[:1] == TLS_RECORD:
            self._read_client_hello()
        elif start.startswith(HTTP2_PREFACE):
            self._take_http2()
        elif HTTP2_PREFACE.startswith(start):
            self._connection.client.start_timer(self._listener.head_timeout, self._hand_over)
        else:
            self._hand_over()

    def _read_client_hello(self) -> None:
        """Start TLS once the client's first message is whole, which says whether it speaks HTTP/1."""
        if client_protocol(self._start) is not ClientProtocol.TLS:
            self._connection.client.start_timer(self._listener.head_timeout, self._hand_over)
            return
        http2 = speaks_only_http2(self._start)
        if self._contexts is not None:
            self._start_tls(self._contexts(http2))
        elif not (http2 and self._tunnel(with_server=True)):
            self._hand_over()

    def _start_tls(self, context: ssl.SSLContext) -> None:
        self._connection.client.stop_timer()
        start, self._start = self._start, b""
        if self._connection.client.write_closed:
            return  # its attempt ended before the first byte, too late for a handshake
        tls = self._tls = TlsConnection(self._transport, context, self, self._on_no_tls)
        self._connection.client.start_tls(tls)
        self._transport.set_protocol(tls)
        tls.data_received(start)

    def _record_failure(self, why: WhyNotIntercepted, detail: str = "") -> None:
        lane = self._listener.lane
        if lane.run is not None and lane.attempt is not None:
            attempt = lane.attempt
            lane.run.record_no_interception(attempt.episode, attempt.number, self._listener.link, why, detail)

    def _on_no_tls(self, reason: str) -> None:
        if "alert" in reason or "unknown ca" in reason:  # the client's, about the certificate
            self._record_failure("authority_refused", reason)
        self._warn(
            f"a client of the link {self._name} ended its TLS handshake ({reason}):"
            " it may not trust the lab's authority"
        )

    def _note_refusal(self) -> None:
        """Record a client that saw the certificate and closes without a request, as one with a pinned key."""
        tls, client = self._tls, self._connection.client
        if tls is None or self._start or client.closing or client.write_closed or self._refusal_noted:
            return
        seconds = tls.refused_for
        if seconds is not None and seconds < _REFUSAL_S:
            self._refusal_noted = True
            self._record_failure("closed_at_certificate")

    def _hand_over(self) -> None:
        self._connection.client.stop_timer()
        start, self._start = self._start, b""
        (self._tls or self._transport).set_protocol(self._connection)
        self._connection.data_received(start)

    def _take_http2(self) -> None:
        if not self._tunnel(with_server=False):
            self._refuse_http2()

    def _tunnel(self, *, with_server: bool) -> bool:
        """Pass the connection on unread; False if only a server of the lab is behind the link.

        ``with_server``: the client speaks TLS with that server.
        """
        endpoint = tunnel_endpoint(self._listener, with_server=with_server)
        if endpoint is None:
            return False
        self._connection.client.stop_timer()
        start, self._start = self._start, b""
        tunnel = Http2Tunnel(self._connection, endpoint)
        (self._tls or self._transport).set_protocol(tunnel)
        tunnel.data_received(start)
        return True

    def _refuse_http2(self) -> None:
        self._warn(f"the link {self._name}: {_ONLY_HTTP2}")
        self._record_failure("http2_only")
        self._start = b""
        self._connection.client.write(_HTTP_1_1_REQUIRED)
        self._connection.client.close(unread=True)

    def eof_received(self) -> bool:
        self._note_refusal()
        if self._start:
            self._hand_over()
        return self._connection.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._note_refusal()
        self._connection.connection_lost(error)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()
