"""The connection to an upstream that is pinned to one client connection."""

from __future__ import annotations

import asyncio
from typing import Protocol, cast

from wirefault.gateway.closed_networks import NETWORK_CLOSED
from wirefault.gateway.connection.recorded_exchanges import RecordedExchanges
from wirefault.gateway.endpoint import Endpoint

_OUTBOX_LIMIT = 64 * 1024
_RECORDING_LIMIT_S = 120.0


class UpstreamEvents(Protocol):
    """What an upstream connection reports."""

    def on_connected(self) -> None: ...

    def on_unreachable(self, reason: str) -> None: ...

    def on_unavailable(self, reason: str) -> None:
        """Nobody is there who could answer the request, and no fault of ours is why."""

    def on_reply(self, data: bytes) -> None: ...

    def on_upstream_end(self, reason: str | None) -> None:
        """The upstream closed; ``reason`` is None if it closed in order, as far as TCP tells."""

    def on_full(self, full: bool) -> None:
        """Whether more data for the upstream would only pile up here."""


class Upstream(Protocol):
    """What takes the requests of one client connection, and reports what comes of them."""

    @property
    def endpoint(self) -> Endpoint: ...

    @property
    def connecting(self) -> bool: ...

    def send(self, data: bytes) -> None: ...

    def send_eof(self) -> None:
        """The client will send no more."""

    def pause(self, paused: bool) -> None:
        """Stops or resumes reading from the upstream."""

    def close(self) -> None:
        """Ends it in order: what was sent still arrives."""

    def abort(self) -> None:
        """Ends it at once; nothing more is reported."""


class UpstreamConnection(asyncio.Protocol):
    """Opens itself. What is sent before it is open waits, and is sent first.

    If its endpoint is recorded, a reply that nobody waits for any more is read to its end, for two minutes
    at most: a replay shall find what a fault, or the client's time limit, kept from the client.
    """

    def __init__(self, events: UpstreamEvents, endpoint: Endpoint, connect_timeout: float) -> None:
        self.endpoint = endpoint
        self._events = events
        self._transport: asyncio.Transport | None = None
        self._outbox: list[bytes] = []
        self._outbox_size = 0
        self._eof_wanted = self._close_wanted = self._ended = self._reading_paused = self._reads_on = False
        recorder = endpoint.recorder
        self._recorded = RecordedExchanges(recorder, endpoint.base_path) if recorder is not None else None
        self._opening = asyncio.ensure_future(self._open(connect_timeout))

    @property
    def connecting(self) -> bool:
        return self._transport is None and not self._ended

    async def _open(self, connect_timeout: float) -> None:
        endpoint = self.endpoint
        name = endpoint.host if endpoint.tls else None
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(connect_timeout):
                await loop.create_connection(
                    lambda: self, endpoint.host, endpoint.port, ssl=endpoint.tls, server_hostname=name
                )
        except TimeoutError:
            self._fail(f"no connection within {connect_timeout:g} s")
        except (OSError, UnicodeError) as error:  # SSLError and gaierror are among them
            self._fail(str(error))

    def _fail(self, reason: str) -> None:
        if not self._ended:
            self._ended = True
            where = self.endpoint.authority.decode()
            self._events.on_unreachable(f"the upstream {where} cannot be reached: {reason}")

    def send(self, data: bytes) -> None:
        """Sends the bytes, at once or when the connection is open."""
        if self._recorded is not None:
            self._recorded.sent(data)
        if self._transport is not None:
            self._transport.write(data)
        elif not self._ended:
            self._outbox.append(data)
            self._outbox_size += len(data)
            if self._outbox_size > _OUTBOX_LIMIT:
                self._events.on_full(True)

    def send_eof(self) -> None:
        """Passes on that the client will send no more; over TLS that can only be a close."""
        if self._recorded is not None and self._recorded.reply_expected:
            return  # many a server takes it for a client that has left, and stops its reply
        if self._transport is None:
            self._eof_wanted = True
        elif self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()

    def close(self) -> None:
        """Closes in order: what was sent still goes out, even before the connection is open."""
        if self._stays_for_recording():
            return
        if self._transport is None:
            self._close_wanted = True
        else:
            self._transport.close()

    def abort(self) -> None:
        """Closes at once; nothing more is reported."""
        self._ended = True
        if self._stays_for_recording():
            return
        self._outbox.clear()
        if self._transport is not None:
            self._transport.abort()
        elif not self._opening.done():
            self._opening.cancel()

    def _stays_for_recording(self) -> bool:
        """Whether the connection is kept until its reply is recorded."""
        if self._recorded is None or self._transport is None or not self._recorded.reply_expected:
            return False
        if not self._reads_on:
            self._reads_on = True
            self.pause(False)
            asyncio.get_running_loop().call_later(_RECORDING_LIMIT_S, self._transport.abort)
        return True

    def pause(self, paused: bool) -> None:
        """Stops or resumes reading from the upstream."""
        if paused == self._reading_paused:
            return
        self._reading_paused = paused
        if self._transport is not None and not self._transport.is_closing():
            if paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if transport.get_extra_info("peername")[0] in self.endpoint.closed:
            self._fail(NETWORK_CLOSED)
        if self._ended:
            self._transport.abort()
            return
        if self._outbox_size > _OUTBOX_LIMIT:
            self._events.on_full(False)
        self._transport.write(b"".join(self._outbox))
        self._outbox.clear()
        self._events.on_connected()
        if self._reading_paused:
            self._transport.pause_reading()
        if self._close_wanted:
            self.close()
        elif self._eof_wanted:
            self.send_eof()

    def data_received(self, data: bytes) -> None:
        if self._recorded is not None:
            self._recorded.received(data)
            if self._reads_on and self._transport is not None and not self._recorded.reply_expected:
                self._transport.abort()
        if not self._ended:
            self._events.on_reply(data)

    def eof_received(self) -> None:
        self._end(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._end(str(error) if error else None)

    def _end(self, reason: str | None) -> None:
        if self._recorded is not None:
            self._recorded.closed(in_order=reason is None)
        if not self._ended:
            self._ended = True
            self._events.on_upstream_end(reason)

    def pause_writing(self) -> None:
        if not self._ended:
            self._events.on_full(True)

    def resume_writing(self) -> None:
        if not self._ended:
            self._events.on_full(False)
