"""One message of a client over stdio, carried as the exchange that MCP over HTTP would make of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from wirefault.dialects.http import chunk, data_of, head_bytes
from wirefault.dialects.mcp import EVENT_STREAM_HEAD, McpMessage, line_event, line_of, read_message
from wirefault.gateway.endpoint import Endpoint
from wirefault.gateway.exchange.connection import ClientConnection
from wirefault.gateway.exchange.reply_changes import RAW_LINES, EventSplitter
from wirefault.gateway.exchange.upstream import SentRequests, UpstreamEvents
from wirefault.gateway.http1.framing import ReplyReader
from wirefault.gateway.lane import LinkListener

ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
EVENTS = head_bytes(EVENT_STREAM_HEAD, None)
EVENTS_END = chunk(b"")
_EVENT_STREAM = b"text/event-stream"
_RAW_LINES = RAW_LINES.encode()


def post_of(body: bytes, link: str) -> bytes:
    """Return the request with this line, without its end, as its body."""
    head = f"POST / HTTP/1.1\r\nHost: {link}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def reply_around(body: bytes) -> bytes:
    """Return the reply with this line, without its end, as its body."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


def request_for_pushed(link: str) -> bytes:
    """Return the request whose reply is all that the server pushes."""
    return f"GET / HTTP/1.1\r\nHost: {link}\r\nAccept: text/event-stream\r\n\r\n".encode()


def event_around(line: bytes) -> bytes:
    """Return one line as an event of a reply that has begun with ``EVENTS``."""
    return chunk(line_event(line))


def split_line_end(line: bytes) -> tuple[bytes, bytes]:
    """Split off the line's end: LF, CR LF, or nothing."""
    body = line.rstrip(b"\r\n")
    return body, line[len(body) :]


class ReplyLines:
    """Turns the HTTP replies of an exchange into lines.

    A body passes unchanged, with ``line_end`` at its end unless a fault made raw lines; each stream event
    becomes a line. A status has no counterpart; a reply without a body writes nothing.
    """

    replies: int
    """Whole replies so far."""
    partial: bool
    """A reply has begun and is not whole."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self.line_end = b"\n"
        self.replies = 0
        self._write = write
        self._events = EventSplitter()
        self._begin()

    def _begin(self) -> None:
        self._body = bytearray()
        self._reader = ReplyReader("POST", False, True, self._body.extend)
        self._written = 0
        self.partial = False

    def feed(self, data: bytes) -> None:
        """Take bytes of the reply; a header block comes in one piece."""
        while data:
            self.partial = True
            _, data = self._reader.feed(data)
            self._write_body()
            if self._reader.done:
                self.replies += 1
                self._begin()

    def _write_body(self) -> None:
        body, done = bytes(self._body), self._reader.done
        self._body.clear()
        block = self._reader.block.lower()
        if _RAW_LINES in block:
            self._write(body)
        elif _EVENT_STREAM in block:
            for event in self._events.feed(body):
                self._write_event(event)
            if done:
                self._write_event(self._events.rest)
        elif done and not self._written:
            if body:
                self._write(body + self.line_end if b"\n" not in body else line_of(body))
        else:
            self._written += len(body)
            self._write(body + self.line_end if done else body)

    def _write_event(self, event: bytes) -> None:
        data = data_of(event)
        if data:
            self._write(line_of(data))


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


class LineExchange:
    """One line of the client and its response, carried by a ``ClientConnection``.

    Without a line, the exchange carries what the server pushes.
    """

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
        self.id = message.id if message is not None and message.kind == "request" else None
        self.progress_token = message.progress_token if message is not None else None
        self._stream = stream
        self._body, self._line_end = split_line_end(line)
        self._request = post_of(self._body, listener.name) if message else request_for_pushed(listener.name)
        self.pushes = self._events_begun = message is None
        self._left = False
        self._sent = 0
        self._lines = ReplyLines(self._write)
        self._upstream: _LineUpstream | None = None
        endpoint = Endpoint("stdio", 0, b"stdio", is_lab=False, opener=self._open)
        self._connection = ClientConnection(replace(listener, endpoint=endpoint))

    def begin(self) -> None:
        """Send the request."""
        self._connection.connection_made(_LineTransport(self._lines.feed, self))
        self._connection.data_received(self._request)

    def _write(self, data: bytes) -> None:
        self._stream.to_client(self, data)

    @property
    def will_send(self) -> bool:
        """Whether the server will get more of it, after a delay or in another copy."""
        request = self._connection.relay.exchange
        if self.pushes or request is None or request.answered_by_fault:
            return False
        fault = request.plan.request_fault if request.plan else None
        return self._sent < (fault.act.copies if fault else 1)

    @property
    def takes_events(self) -> bool:
        """Whether a fault changes only event streams: then its reply is one."""
        request = self._connection.relay.exchange
        faults = request.plan.reply_candidates if request is not None and request.plan else []
        edits = (fault.act.events is not None and fault.act.reply is None for fault in faults)
        return self._upstream is not None and any(edits)

    # towards the server

    def _open(self, events: UpstreamEvents, endpoint: Endpoint) -> _LineUpstream:
        self._upstream = _LineUpstream(self, events, endpoint)
        return self._upstream

    def send(self, body: bytes) -> bool:
        """Send the line, perhaps changed by faults; True if the server will answer."""
        line = self._body + self._line_end if body == self._body else line_of(body)
        message = read_message(body) if self.id is not None else None
        if message:
            self._stream.expect(message.id, self)
        self._sent += 1
        self._stream.to_server(self, line)
        return bool(message)

    # events of the server

    def on_event(self, line: bytes) -> None:
        """Take a line that belongs to it and is not its response."""
        body, _ = split_line_end(line)
        self._reply((b"" if self._events_begun else EVENTS) + event_around(body))
        self._events_begun = True

    def on_response(self, line: bytes) -> None:
        if self.takes_events:
            self.on_event(line)
            self._reply(EVENTS_END)
        else:
            body, self._lines.line_end = split_line_end(line)
            self._reply(reply_around(body))

    def _reply(self, data: bytes) -> None:
        if self._upstream is not None:
            self._upstream.reply(data)

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
        return self._left or self._connection.relay.exchange is None

    def on_client_end(self) -> None:
        """The client is gone, or has cancelled its request."""
        if not self._left:
            self._left = True
            self._connection.connection_lost(None)
            self._stream.leave(self)

    def after_writing(self) -> None:
        """Bytes were written, in an earlier turn of the loop: end the exchange if its reply is complete."""
        if self._connection.relay.exchange is None:
            self.on_client_end()

    def on_close(self) -> None:
        """The client's connection would be closed now."""
        in_order = self._lines.replies > 1 and not self._lines.partial
        if not in_order:
            self._stream.break_off(reset=False)
        asyncio.get_running_loop().call_soon(self.on_client_end)

    def on_abort(self, *, reset: bool) -> None:
        if reset:
            self._stream.break_off(reset=True)
        asyncio.get_running_loop().call_soon(self.on_client_end)


class _LineTransport(asyncio.Transport):
    """The transport of an exchange, which has no socket: ``feed`` gets the bytes, the exchange the end."""

    def __init__(self, feed: Callable[[bytes], None], exchange: LineExchange) -> None:
        super().__init__()
        self._feed = feed
        self._exchange = exchange
        self._closing = self._resets = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing:
            self._feed(bytes(data))
            asyncio.get_running_loop().call_soon(self._exchange.after_writing)

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._exchange.on_close()

    def abort(self) -> None:
        if not self._closing:
            self._closing = True
            self._exchange.on_abort(reset=self._resets)

    def write_eof(self) -> None:
        """The attempt is over, and so is the exchange."""
        self.abort()

    def is_closing(self) -> bool:
        return self._closing

    def can_write_eof(self) -> bool:
        return True

    def pause_reading(self) -> None:
        """Nothing follows the request."""

    resume_reading = pause_reading

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self if name == "socket" else default

    def setsockopt(self, *_: object) -> None:
        """As a socket; the one option that is ever set makes the close a reset."""
        self._resets = True


class _LineUpstream:
    """The server as an upstream: it takes one request after the other, and answers each by a line."""

    connecting = False

    def __init__(self, exchange: LineExchange, events: UpstreamEvents, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._exchange = exchange
        self._events = events
        self._requests = SentRequests(None)
        self._ended = False

    def send(self, data: bytes) -> None:
        request = self._requests.feed(data)
        if request is not None and self._exchange.pushes:
            self.reply(EVENTS)
        elif request is not None and not self._exchange.send(request.body):
            # in a later turn of the loop, as over a network: the caller is still sending
            asyncio.get_running_loop().call_soon(self.reply, ACCEPTED)

    def reply(self, data: bytes) -> None:
        if not self._ended:
            self._events.on_reply(data)

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
