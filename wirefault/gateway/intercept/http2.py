"""Clients that speak only HTTP/2 on a link: their bytes pass unread, and only their number is recorded."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from wirefault.gateway.endpoint import Endpoint, trusting_context
from wirefault.gateway.exchange.client import PauseReason
from wirefault.gateway.exchange.connection import ClientConnection
from wirefault.gateway.exchange.upstream import UpstreamLink
from wirefault.gateway.lane import LaneAttempt, LinkListener
from wirefault.history.events import WentPastLab, WhyNotIntercepted


def tunnel_endpoint(listener: LinkListener, *, with_server: bool) -> Endpoint | None:
    """Return where a tunnel of the link leads; None if a server of the lab or cassettes answer there.

    ``with_server``: the client speaks TLS with the server itself.
    """
    endpoint = listener.endpoint_in(listener.lane.run)
    if endpoint.is_lab or endpoint.player is not None or endpoint.opener is not None:
        return None
    tls = None if with_server or endpoint.tls is None else trusting_context("h2")
    return replace(endpoint, tls=tls, recorder=None)


class Http2Tunnel(asyncio.Protocol):
    """Joins one client with its link's upstream until either leaves, or the attempt ends.

    Takes the connection over. Toxics act on it as on any other, faults of requests do not. While the subject
    is to be killed, its bytes are dropped: at the kill's end the connection ends, too.
    """

    def __init__(self, connection: ClientConnection, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._listener = listener = connection.listener
        self._client = client = connection.client
        self._membership = connection.hand_over()
        self._attempt = self._membership.request_attempt()
        self._membership.join(self._attempt)
        self._sent = self._received = 0
        self._is_over = False
        listener.lane.connections.add(self)
        self._upstream = UpstreamLink(self, listener.connect_timeout, lambda: client.full)
        if self._membership.outlived:
            client.close(unread=True)
        else:
            self._upstream.open(endpoint)

    # from the client

    def data_received(self, data: bytes) -> None:
        if not self._client.closing and not self._listener.lane.killing:
            self._sent += len(data)
            self._upstream.send(data)

    def eof_received(self) -> bool:
        self._client.half_closed = True
        self._upstream.send_eof()
        return not self._client.closing

    def connection_lost(self, error: Exception | None) -> None:
        self._client.lost = True
        self._client.stop_timer()
        if error is None:
            self._upstream.close()
        else:
            self._upstream.drop()
        self._conclude()

    def pause_writing(self) -> None:
        self._client.full = True
        self._upstream.throttle()

    def resume_writing(self) -> None:
        self._client.full = False
        self._upstream.throttle()

    # from the upstream

    def on_connected(self) -> None:
        """The bytes that wait are sent by the upstream's connection."""

    def on_unreachable(self, reason: str) -> None:
        self._client.reset()

    def on_untrusted(self, why: WhyNotIntercepted, reason: str) -> None:
        attempt = self._attempt
        if attempt is not None:
            link = self._listener.link
            attempt.run.record_no_interception(attempt.episode, attempt.number, link, why, reason)
        self._client.reset()

    def on_unavailable(self, reason: str) -> None:
        self._client.reset()

    def on_reply(self, data: bytes) -> None:
        if self._is_over:
            self._upstream.drop()
        else:
            self._received += len(data)
            self._client.write(data)

    def on_upstream_end(self, reason: str | None) -> None:
        self._upstream.drop()
        if self._is_over:
            return
        if reason is None:
            self._client.close(unread=not self._client.half_closed)
        else:
            self._client.reset()

    def on_full(self, full: bool) -> None:
        self._client.pause(PauseReason.UPSTREAM_FULL, full)

    # from the lane

    def end(self, reason: str) -> None:
        self._upstream.drop()
        self._conclude()
        self._client.abort()

    def bury(self) -> None:
        """Its client was killed: what it sent before is on its way, and nothing more of it passes."""
        self._upstream.close()
        self._conclude()
        self._client.abort()

    def settle(self, attempt: LaneAttempt) -> None:
        if self._attempt is attempt:
            self.end("")

    def cut_off(self, attempt: LaneAttempt) -> None:
        """It has ended already."""

    def _conclude(self) -> None:
        """Record the connection; its attempt no longer waits for it."""
        if self._is_over:
            return
        self._is_over = True
        attempt, where = self._attempt, self._endpoint
        if attempt is not None and not self._membership.outlived:
            attempt.run.record(
                WentPastLab(
                    t=time.time(),
                    episode=attempt.episode,
                    attempt=attempt.number,
                    host=where.host,
                    port=where.port,
                    protocol="tcp",
                    program="the subject",
                    count=1,
                    link=self._listener.name,
                    only_http2=True,
                    sent=self._sent,
                    received=self._received,
                )
            )
        self._listener.lane.connections.discard(self)
        self._membership.leave()
