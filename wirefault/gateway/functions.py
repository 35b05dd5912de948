"""Tools that are functions of the subject: their calls come by HTTP and return to the process that sent them.

A caller opens two connections: one through the link's proxy, for its requests, and one straight to this
listener, for their return (``SERVE TOKEN`` as its first line). Each request names its caller's token. The
gateway writes it, perhaps changed by faults, to the second connection, as a client writes to a server. The
caller carries it out and answers there, and gets the reply, perhaps changed by faults, on the first.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import cast

from wirefault.gateway.endpoint import Endpoint
from wirefault.gateway.exchange.connection import ClientConnection
from wirefault.gateway.exchange.upstream import UpstreamEvents
from wirefault.gateway.lane import LinkListener

CALLER_HEADER = "Tool-Caller"
_SERVE = b"SERVE "
_MAX_HELLO = 128
_HELLO = re.compile(rb"SERVE ([A-Za-z0-9_-]{16,64})\n")
_CALLER = re.compile(rb"\r\n" + CALLER_HEADER.encode() + rb":[ \t]*([A-Za-z0-9_-]{16,64})[ \t]*\r\n", re.I)
_NO_CALLER = "the process that called the function has closed its connection"


class FunctionCallers:
    """The callers of one link's functions, by token."""

    def __init__(self) -> None:
        self._by_token: dict[str, CallerStream] = {}

    def open(self, events: UpstreamEvents, endpoint: Endpoint) -> FunctionUpstream:
        """Return the upstream of one caller's requests; implements ``Endpoint.opener``."""
        return FunctionUpstream(events, endpoint, self._by_token.get)

    def add(self, token: str, stream: CallerStream) -> bool:
        """Add a caller; False if its token is taken."""
        return self._by_token.setdefault(token, stream) is stream

    def remove(self, token: str) -> None:
        self._by_token.pop(token, None)

    def close(self) -> None:
        """End all return connections."""
        for stream in tuple(self._by_token.values()):
            stream.abort()


class CallerStream(asyncio.Protocol):
    """A caller's return connection: calls go to it, their results come back."""

    upstream: FunctionUpstream | None = None
    """Takes what the caller sends."""

    def __init__(self, token: str, callers: FunctionCallers) -> None:
        self._token = token
        self._callers = callers
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._callers.add(self._token, self):
            self._transport.write(b"OK\n")
        else:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self.upstream is not None:
            self.upstream.on_data(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._callers.remove(self._token)
        upstream, self.upstream = self.upstream, None
        if upstream is not None:
            upstream.on_end()

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def abort(self) -> None:
        self._transport.abort()


class FunctionUpstream:
    """Implements ``Upstream`` for the requests of one caller."""

    connecting = False

    def __init__(
        self, events: UpstreamEvents, endpoint: Endpoint, find: Callable[[str], CallerStream | None]
    ) -> None:
        self.endpoint = endpoint
        self._events = events
        self._find = find
        self._stream: CallerStream | None = None
        self._ended = False

    def send(self, data: bytes) -> None:
        if self._stream is None and not self._ended:
            named = _CALLER.search(data)  # the first bytes hold the whole header block
            self._stream = self._find(named[1].decode()) if named else None
            if self._stream is None:
                self._ended = True
                # in a later turn of the loop, as over a network: the relay is still sending
                asyncio.get_running_loop().call_soon(self._events.on_unreachable, _NO_CALLER)
                return
            self._stream.upstream = self
        if self._stream is not None:
            self._stream.write(data)

    def on_data(self, data: bytes) -> None:
        if not self._ended:
            self._events.on_reply(data)

    def on_end(self) -> None:
        self._stream = None
        if not self._ended:
            self._ended = True
            self._events.on_upstream_end(None)

    def abort(self) -> None:
        """Leave the caller, which would take the next call for a repetition of this one."""
        self._ended = True
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.upstream = None
            stream.abort()

    close = abort

    def send_eof(self) -> None:
        """The caller waits for the reply of its own call."""

    def pause(self, paused: bool) -> None:
        """The caller waits for its reply and sends nothing else."""


class FunctionArrival(asyncio.Protocol):
    """A new connection of a caller: for its requests, or for their return."""

    def __init__(self, listener: LinkListener, callers: FunctionCallers) -> None:
        self._listener = listener
        self._callers = callers
        self._first = b""
        self._connection = ClientConnection(listener)
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connection.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        first = self._first = self._first + data
        if not (first.startswith(_SERVE) or _SERVE.startswith(first)):
            self._transport.set_protocol(self._connection)
            self._connection.data_received(first)
        elif b"\n" in first or len(first) > _MAX_HELLO:
            self._serve(first)
        else:
            self._connection.client.start_timer(self._listener.head_timeout, self._transport.abort)

    def _serve(self, first: bytes) -> None:
        self._connection.client.stop_timer()
        self._connection.hand_over().leave()
        hello = _HELLO.fullmatch(first)
        if hello is None:
            self._transport.abort()
            return
        stream = CallerStream(hello[1].decode(), self._callers)
        self._transport.set_protocol(stream)
        stream.connection_made(self._transport)

    def eof_received(self) -> bool:
        return self._connection.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self._connection.connection_lost(error)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()
