"""One message of a client over stdio and its response, as an exchange."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from wirefault.dialects.mcp import EVENT_STREAM_HEAD, McpMessage, read_message
from wirefault.gateway.endpoint import Endpoint
from wirefault.gateway.exchange.client import PauseReason
from wirefault.gateway.exchange.client_side import ClientSide
from wirefault.gateway.exchange.decision import ask_faults, may_meet_fault
from wirefault.gateway.exchange.upstream import UpstreamEvents
from wirefault.gateway.http1.heads import RequestHead
from wirefault.gateway.lane import LinkListener
from wirefault.gateway.lines.carrier import (
    ACCEPTED,
    LineCarrier,
    LinePart,
    event_part,
    response_part,
    split_line_end,
)


class ExchangeStream(Protocol):
    """The two streams of lines that an exchange belongs to."""

    def to_server(self, sender: object, data: bytes) -> None: ...

    def to_client(self, sender: object, data: bytes) -> None: ...

    def expect(self, id: Any, exchange: LineExchange) -> None:
        """Give the server's next response with that id to that exchange."""

    def forget(self, exchange: LineExchange) -> None:
        """It no longer waits for a response."""

    def leave(self, exchange: LineExchange) -> None:
        """It is over."""

    def break_off(self, *, reset: bool) -> None:
        """A fault ends the client's stream, and the server with it."""


def _head_of(body: bytes, *, pushes: bool) -> RequestHead:
    """Return the message's head for faults and records: the one that MCP has over HTTP."""
    header = b"Accept: text/event-stream" if pushes else b"Content-Type: application/json"
    head = RequestHead("GET" if pushes else "POST", "/", [b"", header], 0)
    head.length = len(body)
    return head


class LineExchange(ClientSide):
    """One line of the client and its response. Without a line, it has what the server pushes."""

    id: Any
    """Id of a request; None for other messages, which get no response."""
    progress_token: Any
    """The server reports progress under this token."""
    pushes: bool
    """It has no line."""

    def __init__(
        self,
        listener: LinkListener,
        stream: ExchangeStream,
        line: bytes = b"",
        message: McpMessage | None = None,
    ) -> None:
        endpoint = Endpoint("stdio", 0, b"stdio", is_lab=False, opener=self._open)
        super().__init__(replace(listener, endpoint=endpoint))
        self.id = message.id if message is not None and message.kind == "request" else None
        self.progress_token = message.progress_token if message is not None else None
        self.pushes = message is None
        self._stream = stream
        self._body, _ = split_line_end(line)
        self._carrier = LineCarrier(line)
        self._ended = False
        self._sent = 0
        self._upstream: _LineUpstream | None = None

    def begin(self) -> None:
        """Send the line."""
        self.join(_LineClient(self._write, self._stream, self.on_client_end), self._carrier)
        if self.listener.lane.killing and not self.pushes:
            return  # its process is to die: the kill's end drops the line
        exchange = self.new_exchange(_head_of(self._body, pushes=self.pushes), time.perf_counter())
        if may_meet_fault(exchange):
            ask_faults(exchange)
        if exchange.decision is not None and exchange.waiting is not None:
            self.carry_out_plan(exchange)
            return
        if self._body:
            exchange.take_body(self._body)
        self.take_body(exchange, self._body)

    def _write(self, data: bytes) -> None:
        self._stream.to_client(self, data)

    @property
    def will_send(self) -> bool:
        """Whether the server will get more of it, after a delay or in another copy."""
        request = self.relay.exchange
        if self.pushes or request is None or request.answered_by_fault:
            return False
        fault = request.plan.request_fault if request.plan else None
        return self._sent < (fault.act.copies if fault else 1)

    @property
    def takes_events(self) -> bool:
        """Whether a fault changes only event streams: then its reply is one."""
        request = self.relay.exchange
        faults = request.plan.reply_candidates if request is not None and request.plan else []
        edits = (fault.act.events is not None and fault.act.reply is None for fault in faults)
        return self._upstream is not None and any(edits)

    # towards the server

    def _open(self, events: UpstreamEvents, endpoint: Endpoint) -> _LineUpstream:
        self._upstream = _LineUpstream(self, events, endpoint)
        return self._upstream

    def send(self, line: bytes) -> None:
        """Send the line, perhaps changed by faults, and begin the reply unless the server does."""
        message = read_message(line) if self.id is not None else None
        if self.pushes:
            self._reply(LinePart(b"", EVENT_STREAM_HEAD))
            return
        if message:
            self._stream.expect(message.id, self)
        self._sent += 1
        self._stream.to_server(self, line)
        if not message:
            # in a later turn of the loop, as over a network: the caller is still sending
            asyncio.get_running_loop().call_soon(self._reply, LinePart(b"", ACCEPTED, last=True))

    # events of the server

    def on_event(self, line: bytes) -> None:
        """Take a line that belongs to it and is not its response."""
        self._reply(event_part(line))

    def on_response(self, line: bytes) -> None:
        if self.takes_events:
            self.on_event(line)
        else:
            self._carrier.line_end = split_line_end(line)[1]
            self._reply(response_part(line))

    def _reply(self, part: LinePart) -> None:
        if self._upstream is not None:
            self._upstream.reply(part)

    def on_server_end(self) -> None:
        """The server's stream has ended before its response."""
        if self._upstream is not None:
            self._upstream.end()

    def forget(self) -> None:
        """Do not wait for the response; if it comes, it passes unchanged."""
        self._stream.forget(self)

    # the end

    @property
    def over(self) -> bool:
        return self._ended or self.relay.exchange is None

    def on_client_end(self) -> None:
        """The client is gone, has cancelled its request, or has its response."""
        if not self._ended:
            self._ended = True
            self.client.lost = True
            self.lose_client()
            self._stream.leave(self)

    def on_request_finished(self) -> None:
        asyncio.get_running_loop().call_soon(self.on_client_end)


class _LineClient:
    """Implements ``Client`` for one exchange. The stream of lines lasts, unless a fault breaks it off."""

    full = half_closed = False

    def __init__(
        self, write: Callable[[bytes], None], stream: ExchangeStream, on_end: Callable[[], None]
    ) -> None:
        self.lost = self.closing = False
        self._write, self._stream, self._on_end = write, stream, on_end

    def write(self, data: bytes) -> None:
        if not self.closing:
            self._write(data)

    def close(self, *, unread: bool = False, cut: bool = False) -> None:
        if not self.closing:
            self._stream.break_off(reset=False)
            self.abort()

    def reset(self) -> None:
        if not self.closing:
            self._stream.break_off(reset=True)
            self.abort()

    def abort(self) -> None:
        """End the exchange alone."""
        if not self.closing:
            self.closing = True
            asyncio.get_running_loop().call_soon(self._on_end)

    def half_close(self, seconds: float) -> None:
        """The attempt is over, and so is the exchange."""
        self.abort()

    def pause(self, reason: PauseReason, paused: bool) -> None:
        """Nothing follows the line."""

    def after_sending(self, report: Callable[[bool], None]) -> None:
        """Only a client that has half-closed is asked, and a line's has not."""


class _LineUpstream:
    """The server as the upstream of one exchange."""

    connecting = False

    def __init__(self, exchange: LineExchange, events: UpstreamEvents, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._exchange = exchange
        self._events = events
        self._ended = False

    def send(self, data: bytes) -> None:
        self._exchange.send(data)

    def reply(self, part: LinePart) -> None:
        if not self._ended:
            self._events.on_reply(part)

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self._events.on_upstream_end(None)

    def abort(self) -> None:
        self._ended = True
        self._exchange.forget()

    close = abort

    def send_eof(self) -> None:
        """The server still reads lines of other exchanges."""

    def pause(self, paused: bool) -> None:
        """A line comes in one piece."""
