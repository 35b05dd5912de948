"""One message of a client, carried out as the HTTP exchange that MCP over HTTP would make of it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Protocol

from wirefault.dialects.mcp import McpMessage, line_of, read_message
from wirefault.gateway.connection.connection import ClientConnection
from wirefault.gateway.connection.recorded_exchanges import SentRequests
from wirefault.gateway.connection.upstream_connection import UpstreamEvents
from wirefault.gateway.endpoint import Endpoint
from wirefault.gateway.link_listener import LinkListener
from wirefault.gateway.stdio.http_of_lines import (
    ACCEPTED,
    EVENTS,
    EVENTS_END,
    RepliedLines,
    event_around,
    post_of,
    reply_around,
    request_for_pushed,
    without_end,
)
from wirefault.gateway.stdio.line_transport import LineTransport


class ExchangeStream(Protocol):
    """The two streams of lines that an exchange is a part of."""

    def to_server(self, sender: object, data: bytes) -> None: ...

    def to_client(self, sender: object, data: bytes) -> None: ...

    def expect(self, id: Any, exchange: LineExchange) -> None:
        """The server's next response with that id is that exchange's."""

    def forget(self, exchange: LineExchange) -> None:
        """It waits for no response any more."""

    def leave(self, exchange: LineExchange) -> None:
        """Nothing is left of it."""

    def break_off(self, *, reset: bool) -> None:
        """A fault ends the connection: the client's stream ends, and the server with it."""


class LineExchange:
    """Begins with the client's line; a ``ClientConnection`` of its own does the rest.

    ``id`` is that of a request, None for any other message, which nobody answers; by ``progress_token`` the
    server reports its progress. Without a line it ``pushes``: it stands for what the server sends of its own
    accord.
    """

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
        self._body, self._line_end = without_end(line)
        self._request = post_of(self._body, listener.name) if message else request_for_pushed(listener.name)
        self.pushes = self._events_begun = message is None
        self._left = False
        self._sent = 0
        self._lines = RepliedLines(self._write)
        self._upstream: _LineUpstream | None = None
        endpoint = Endpoint("stdio", 0, b"stdio", is_lab=False, opener=self._open)
        self._connection = ClientConnection(replace(listener, endpoint=endpoint))

    def begin(self) -> None:
        """Sends the request on its way."""
        self._connection.connection_made(LineTransport(self._lines.feed, self))
        self._connection.data_received(self._request)

    def _write(self, data: bytes) -> None:
        self._stream.to_client(self, data)

    @property
    def will_send(self) -> bool:
        """Whether the server will still be sent something, after a delay or in another copy."""
        request = self._connection.relay.request
        if self.pushes or request is None or request.answered_by_fault:
            return False
        fault = request.plan.request_fault if request.plan else None
        return self._sent < (fault.act.copies if fault else 1)

    @property
    def takes_events(self) -> bool:
        """Whether a fault on it changes event streams alone: then all that belongs to it comes as one."""
        request = self._connection.relay.request
        faults = request.plan.reply_candidates if request is not None and request.plan else []
        edits = (met.act.events is not None and met.act.reply is None for met in faults)
        return self._upstream is not None and any(edits)

    # towards the server

    def _open(self, events: UpstreamEvents, endpoint: Endpoint) -> _LineUpstream:
        self._upstream = _LineUpstream(self, events, endpoint)
        return self._upstream

    def send(self, body: bytes) -> bool:
        """Sends the line, as its faults have left it; whether the server will answer."""
        line = self._body + self._line_end if body == self._body else line_of(body)
        sent = self.id is not None and read_message(body)
        if sent:
            self._stream.expect(sent.id, self)
        self._sent += 1
        self._stream.to_server(self, line)
        return bool(sent)

    # what the server says

    def on_event(self, line: bytes) -> None:
        """A line that belongs to it and is not its response."""
        body, _ = without_end(line)
        self._reply((b"" if self._events_begun else EVENTS) + event_around(body))
        self._events_begun = True

    def on_response(self, line: bytes) -> None:
        if self.takes_events:
            self.on_event(line)
            self._reply(EVENTS_END)
        else:
            body, self._lines.line_end = without_end(line)
            self._reply(reply_around(body))

    def _reply(self, data: bytes) -> None:
        if self._upstream is not None:
            self._upstream.reply(data)

    def on_server_end(self) -> None:
        """The server's stream has ended before its response."""
        if self._upstream is not None:
            self._upstream.end()

    def forget(self) -> None:
        """The response is not waited for: should it come, it goes on as it is."""
        self._stream.forget(self)

    # the end

    @property
    def over(self) -> bool:
        return self._left or self._connection.relay.request is None

    def on_client_end(self) -> None:
        """The client is gone, or has cancelled its request."""
        if not self._left:
            self._left = True
            self._connection.connection_lost(None)
            self._stream.leave(self)

    def after_writing(self) -> None:
        """Ends it if its reply has been given."""
        if self._connection.relay.request is None:
            self.on_client_end()

    def on_close(self) -> None:
        """The connection of an HTTP client would be closed now."""
        in_order = self._lines.replies > 1 and not self._lines.partial
        if not in_order:
            self._stream.break_off(reset=False)
        asyncio.get_running_loop().call_soon(self.on_client_end)

    def on_abort(self, *, reset: bool) -> None:
        if reset:
            self._stream.break_off(reset=True)
        asyncio.get_running_loop().call_soon(self.on_client_end)


class _LineUpstream:
    """The server, as the connection to an upstream: one request after the other, each answered by a line."""

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
            # in a later turn, as over a network: whoever sends the request is not done with sending
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
        """The server goes on to read the lines of others."""

    def pause(self, paused: bool) -> None:
        """A line is there in one piece."""
