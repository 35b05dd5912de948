"""The upstream of one client connection: a server, cassettes, or the server behind a link of lines."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Protocol, cast

from wirefault.dialects.http import Reply, Request
from wirefault.gateway.closed_networks import NETWORK_CLOSED
from wirefault.gateway.endpoint import Endpoint, Player, Recorder
from wirefault.gateway.exchange.reply_changes import MAX_BUFFERED_REPLY
from wirefault.gateway.http1.framing import NO_BODY, Body, ChunkedBody, ReplyReader, SizedBody
from wirefault.gateway.http1.heads import IDEMPOTENCY_KEYS, OPERATION, RequestHead, find_head
from wirefault.gateway.http1.messages import (
    Unreadable,
    content_encoding,
    decoded,
    render,
    reply_of,
)
from wirefault.history.events import WhyNotIntercepted

_MAX_OUTBOX = 64 * 1024
_KEPT = (*IDEMPOTENCY_KEYS, OPERATION)
_RECORDING_LIMIT_S = 120.0
# Answers to a bad request by the model; other errors are about keys, limits and outages.
_RECORDED_ERRORS = (400, 422)


class UpstreamEvents(Protocol):
    """The receiver of an upstream's events."""

    def on_connected(self) -> None: ...

    def on_unreachable(self, reason: str) -> None: ...

    def on_untrusted(self, why: WhyNotIntercepted, reason: str) -> None:
        """The lab does not trust the server's certificate, or the server refuses the lab's TLS."""

    def on_unavailable(self, reason: str) -> None:
        """No server can answer the request, and no injected fault is the cause."""

    def on_reply(self, data: bytes) -> None: ...

    def on_upstream_end(self, reason: str | None) -> None:
        """The upstream closed; ``reason`` is None if it closed gracefully, as far as TCP shows."""

    def on_full(self, full: bool) -> None:
        """Whether more bytes for the upstream would only pile up here."""


class Upstream(Protocol):
    """Takes the requests of one client connection, and reports the results."""

    @property
    def endpoint(self) -> Endpoint: ...

    @property
    def connecting(self) -> bool: ...

    def send(self, data: bytes) -> None: ...

    def send_eof(self) -> None:
        """Half-close: the client will send no more."""

    def pause(self, paused: bool) -> None:
        """Stop or resume reading from the upstream."""

    def close(self) -> None:
        """Close gracefully: bytes that were sent still arrive."""

    def abort(self) -> None:
        """Close at once, and report nothing more."""


class UpstreamLink:
    """Opens, throttles and drops the one upstream of a client connection.

    While ``client_is_behind()``, nothing is read from the upstream.
    """

    def __init__(
        self, events: UpstreamEvents, connect_timeout: float, client_is_behind: Callable[[], bool]
    ) -> None:
        self._events = events
        self._connect_timeout = connect_timeout
        self._client_is_behind = client_is_behind
        self.connection: Upstream | None = None

    def open(self, endpoint: Endpoint) -> Upstream:
        """Return the connection to that endpoint, opened if necessary; drop one to another endpoint."""
        connection = self.connection
        if connection is not None and connection.endpoint is not endpoint:
            self.drop()
            connection = None
        if connection is None:
            if endpoint.opener is not None:
                connection = cast(Upstream, endpoint.opener(self._events, endpoint))
            elif endpoint.player is not None:
                connection = _ReplayedUpstream(self._events, endpoint, endpoint.player)
            else:
                connection = _UpstreamConnection(self._events, endpoint, self._connect_timeout)
            self.connection = connection
            self.throttle()
        return connection

    @property
    def connecting(self) -> bool:
        return self.connection is not None and self.connection.connecting

    def send(self, data: bytes) -> None:
        if self.connection is not None:
            self.connection.send(data)

    def send_eof(self) -> None:
        if self.connection is not None:
            self.connection.send_eof()

    def throttle(self) -> None:
        """Read from the upstream, unless the client is behind."""
        if self.connection is not None:
            self.connection.pause(self._client_is_behind())

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()

    def drop(self) -> None:
        """Close the connection at once; the next request opens another."""
        connection = self.connection
        if connection is not None:
            self.connection = None
            connection.abort()
            self._events.on_full(False)


class _UpstreamConnection(asyncio.Protocol):
    """A TCP or TLS connection. It opens on creation; bytes that are sent before it is open wait.

    If its endpoint is recorded, a reply that no client waits for any more is still read to its end, for two
    minutes at most: a replay needs the whole reply, even if a fault or a time limit kept it from the client.
    """

    def __init__(self, events: UpstreamEvents, endpoint: Endpoint, connect_timeout: float) -> None:
        self.endpoint = endpoint
        self._events = events
        self._transport: asyncio.Transport | None = None
        self._outbox: list[bytes] = []
        self._outbox_size = 0
        self._has_received = False
        self._eof_pending = self._close_pending = self._ended = self._reading_paused = self._reads_on = False
        recorder = endpoint.recorder
        self._recorded = _RecordedExchanges(recorder, endpoint.base_path) if recorder is not None else None
        self._opening = asyncio.ensure_future(self._open(connect_timeout))

    @property
    def connecting(self) -> bool:
        return self._transport is None and not self._ended

    async def _open(self, connect_timeout: float) -> None:
        try:
            async with asyncio.timeout(connect_timeout):
                await self._dial()
        except TimeoutError:
            self._fail(f"no connection within {connect_timeout:g} s")
        except ssl.SSLCertVerificationError as error:
            self._refuse_tls("upstream_untrusted", error.verify_message)
        except ssl.SSLError as error:
            if not self._note_alert(error):
                self._fail(str(error))
        except (OSError, UnicodeError) as error:  # gaierror is among them
            self._fail(str(error))

    async def _dial(self) -> None:
        """Connect to the host, or where it refuses to the server's other addresses. Raises ``OSError``."""
        endpoint, loop = self.endpoint, asyncio.get_running_loop()
        name = endpoint.host if endpoint.tls else None
        refusal: OSError | None = None
        for host in (endpoint.host, *endpoint.other_hosts):
            try:
                await loop.create_connection(
                    lambda: self, host, endpoint.port, ssl=endpoint.tls, server_hostname=name
                )
            except ssl.SSLError:
                raise
            except OSError as error:
                refusal = refusal or error
                if not isinstance(refusal, ConnectionRefusedError):
                    break
            else:
                return
        assert refusal is not None
        raise refusal

    def _note_alert(self, error: BaseException | None) -> bool:
        """Report a server that ends TLS by an alert before its first byte; False for any other error.

        In TLS 1.3 it may check a client's certificate only after the handshake.
        """
        reason = (error.reason or "").replace("_", " ").lower() if isinstance(error, ssl.SSLError) else ""
        if "alert" not in reason or self._has_received:
            return False
        self._refuse_tls("upstream_refused", reason)
        return True

    def _refuse_tls(self, why: WhyNotIntercepted, reason: str) -> None:
        if not self._ended:
            self._ended = True
            self._events.on_untrusted(why, reason)

    def _fail(self, reason: str) -> None:
        if not self._ended:
            self._ended = True
            where = self.endpoint.authority.decode()
            self._events.on_unreachable(f"the upstream {where} cannot be reached: {reason}")

    def send(self, data: bytes) -> None:
        """Send the bytes now, or when the connection is open."""
        if self._recorded is not None:
            self._recorded.on_sent(data)
        if self._transport is not None:
            self._transport.write(data)
        elif not self._ended:
            self._outbox.append(data)
            self._outbox_size += len(data)
            if self._outbox_size > _MAX_OUTBOX:
                self._events.on_full(True)

    def send_eof(self) -> None:
        """Half-close: the client will send no more. TLS can only close."""
        if self._recorded is not None and self._recorded.reply_expected:
            return  # many servers treat it as a client that has left, and stop their reply
        if self._transport is None:
            self._eof_pending = True
        elif self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()

    def close(self) -> None:
        """Close gracefully: bytes that were sent still go out, even before the connection is open."""
        if self._stays_for_recording():
            return
        if self._transport is None:
            self._close_pending = True
        else:
            self._transport.close()

    def abort(self) -> None:
        """Close at once; report nothing more."""
        self._ended = True
        if self._stays_for_recording():
            return
        self._outbox.clear()
        if self._transport is not None:
            self._transport.abort()
        elif not self._opening.done():
            self._opening.cancel()

    def _stays_for_recording(self) -> bool:
        """Keep the connection until its reply is recorded; False if there is nothing to record."""
        if self._recorded is None or self._transport is None or not self._recorded.reply_expected:
            return False
        if not self._reads_on:
            self._reads_on = True
            self.pause(False)
            asyncio.get_running_loop().call_later(_RECORDING_LIMIT_S, self._transport.abort)
        return True

    def pause(self, paused: bool) -> None:
        """Stop or resume reading from the upstream."""
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
        host, port, *_ = transport.get_extra_info("peername")
        if self.endpoint.closed.closes(host, port):
            self._fail(NETWORK_CLOSED)
        if self._ended:
            self._transport.abort()
            return
        if self._outbox_size > _MAX_OUTBOX:
            self._events.on_full(False)
        self._transport.write(b"".join(self._outbox))
        self._outbox.clear()
        self._events.on_connected()
        if self._reading_paused:
            self._transport.pause_reading()
        if self._close_pending:
            self.close()
        elif self._eof_pending:
            self.send_eof()

    def data_received(self, data: bytes) -> None:
        self._has_received = True
        if self._recorded is not None:
            self._recorded.on_received(data)
            if self._reads_on and self._transport is not None and not self._recorded.reply_expected:
                self._transport.abort()
        if not self._ended:
            self._events.on_reply(data)

    def eof_received(self) -> None:
        self._end(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._note_alert(error)
        self._end(str(error) if error else None)

    def _end(self, reason: str | None) -> None:
        if self._recorded is not None:
            self._recorded.on_closed(in_order=reason is None)
        if not self._ended:
            self._ended = True
            self._events.on_upstream_end(reason)

    def pause_writing(self) -> None:
        if not self._ended:
            self._events.on_full(True)

    def resume_writing(self) -> None:
        if not self._ended:
            self._events.on_full(False)


class _ReplayedUpstream:
    """An upstream that is always reachable, and has only recorded replies."""

    connecting = False

    def __init__(self, events: UpstreamEvents, endpoint: Endpoint, player: Player) -> None:
        self.endpoint = endpoint
        self._events = events
        self._player = player
        self._requests = SentRequests(endpoint.base_path)
        self._answering: asyncio.Handle | None = None

    def send(self, data: bytes) -> None:
        request = self._requests.feed(data)
        if request is not None:
            # in a later turn of the loop, as over a network: the caller is still sending
            reply = self._player.next_reply(request)
            self._answering = asyncio.get_running_loop().call_soon(self._answer, reply)

    def _answer(self, reply: Reply | None) -> None:
        if reply is None:
            self._events.on_unavailable(self._player.not_recorded)
        else:
            self._events.on_reply(render(reply, keep_alive=True, head_only=False))

    def abort(self) -> None:
        """Report nothing more."""
        if self._answering is not None:
            self._answering.cancel()

    close = abort

    def send_eof(self) -> None:
        """The reply comes anyway."""

    def pause(self, paused: bool) -> None:
        """A reply from a file comes in one piece."""


class _RecordedExchanges:
    """Gives the recorder each whole reply to a whole request, as the model's server sent it."""

    def __init__(self, recorder: Recorder, base_path: str | None) -> None:
        self._recorder = recorder
        self._requests = SentRequests(base_path)
        self._keep: Callable[[Reply], None] | None = None
        self._reply = ReplyReader("", False, False)
        self._body = bytearray()

    @property
    def reply_expected(self) -> bool:
        """Whether the request is whole, and its reply is not."""
        return self._keep is not None

    def on_sent(self, data: bytes) -> None:
        request = None if self.reply_expected else self._requests.feed(data)
        if request is not None:
            self._keep = self._recorder.ask(request)
            self._body.clear()
            self._reply = ReplyReader(request.method, False, False, self._body.extend)

    def on_received(self, data: bytes) -> None:
        if self.reply_expected:
            self._reply.feed(data)
            if self._reply.done:
                self._on_reply()

    def on_closed(self, *, in_order: bool) -> None:
        if self.reply_expected and in_order and self._reply.ends_by_close:
            self._on_reply()
        self._keep = None

    def _on_reply(self) -> None:
        keep, self._keep = self._keep, None
        block, head = self._reply.block, self._reply.head
        if keep is None or head is None:
            return
        if not (head.status < 300 or head.status in _RECORDED_ERRORS or self._recorder.keeps_errors):
            return
        try:
            keep(reply_of(block, decoded(bytes(self._body), content_encoding(block), MAX_BUFFERED_REPLY)))
        except (OSError, Unreadable) as error:
            self._recorder.failure = f"a cassette cannot be written: {error}"


class SentRequests:
    """Reassembles requests from sent bytes, without the ``base_path``, which is specific to one server.

    Of their headers only idempotency keys and AWS's operation are kept.
    """

    def __init__(self, base_path: str | None) -> None:
        self._base_path = base_path or ""
        self._head: RequestHead | None = None
        self._framing: Body = NO_BODY
        self._body = bytearray()

    def feed(self, data: bytes) -> Request | None:
        """Return the request that these bytes complete. A header block is always sent in one piece."""
        if self._head is None:
            self._head, data = find_head(data)
            assert self._head is not None
            keep = self._body.extend
            self._framing = ChunkedBody(keep) if self._head.chunked else SizedBody(self._head.length, keep)
        self._framing.feed(data)
        if not self._framing.done:
            return None
        head, body, self._head = self._head, bytes(self._body), None
        self._body.clear()
        keys = tuple((name.decode(), head.noted[name]) for name in _KEPT if name in head.noted)
        return Request(keys, body, head.method, head.target.removeprefix(self._base_path))
