"""Streams of lines: split and joined without reading them, and the stream of a server."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol, cast

MAX_LINE = 16 << 20


class Line(NamedTuple):
    """Bytes of a stream. ``whole``: exactly one line, with its end."""

    data: bytes
    whole: bool


class LineSplitter:
    """Splits a stream into lines. A line over 16 MiB comes in pieces, none of which is whole."""

    def __init__(self, max_line: int = MAX_LINE) -> None:
        self._max_line = max_line
        self._rest = bytearray()
        self._in_pieces = False

    def feed(self, data: bytes) -> list[Line]:
        """Return the lines that these bytes complete."""
        lines: list[Line] = []
        start = 0
        while end := data.find(b"\n", start) + 1:
            lines.append(Line(bytes(self._rest) + data[start:end], not self._in_pieces))
            self._rest.clear()
            self._in_pieces = False
            start = end
        self._rest += data[start:]
        if len(self._rest) > self._max_line or (self._in_pieces and self._rest):
            self._in_pieces = True
            lines.append(Line(bytes(self._rest), False))
            self._rest.clear()
        return lines

    def end(self) -> bytes:
        """Return the incomplete last line of a stream that has ended; empty without one."""
        rest = bytes(self._rest)
        self._rest.clear()
        return rest


class LineSequence:
    """Writes lines of several senders one after the other: no line begins in the middle of another."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._sender: object = None  # of the line that is not complete
        self._waiting: deque[tuple[object, bytes]] = deque()

    def write(self, sender: object, data: bytes) -> None:
        """Send these bytes, or keep them until the line of another sender is complete."""
        if self._sender is None or self._sender is sender:
            self._send(sender, data)
            self._send_waiting()
        else:
            self._waiting.append((sender, data))

    def release(self, sender: object) -> None:
        """That sender has finished: the next bytes follow on its line if the line has no end."""
        if self._sender is sender:
            self._sender = None
            self._send_waiting()

    def _send(self, sender: object, data: bytes) -> None:
        if data:
            self._write(data)
            self._sender = None if data.endswith(b"\n") else sender

    def _send_waiting(self) -> None:
        while self._waiting and (self._sender is None or self._sender is self._waiting[0][0]):
            self._send(*self._waiting.popleft())


_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER: on, no time
_CLIENT_JOINED = b"{}\n"


class ServerEvents(Protocol):
    """The receiver of a server's stream."""

    def on_server_data(self, data: bytes) -> None: ...

    def on_server_end(self) -> None: ...

    def pause_client(self, paused: bool) -> None: ...


class ServerStream(asyncio.Protocol):
    """The connection of ``wirefault mcp`` that carries its server's two streams.

    ``lost``: it is over. Bytes of the server wait until ``join``.
    """

    def __init__(self, token: str) -> None:
        self.token = token
        self.lost = False
        self._events: ServerEvents | None = None
        self._transport: asyncio.Transport
        self._paused = self._eof_sent = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.pause(True)

    def join(self, events: ServerEvents) -> None:
        """The client has connected; a first line reports this to ``wirefault mcp``."""
        self._events = events
        self.write(_CLIENT_JOINED)
        self.pause(False)

    def data_received(self, data: bytes) -> None:
        if self._events is not None:
            self._events.on_server_data(data)

    def eof_received(self) -> bool:
        self._end()
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self._end()

    def _end(self) -> None:
        events, self._events = self._events, None
        if events is not None:
            events.on_server_end()

    def write(self, data: bytes) -> None:
        if not (self._eof_sent or self._transport.is_closing()):
            self._transport.write(data)

    def send_eof(self) -> None:
        """End the server's input."""
        if not (self._eof_sent or self._transport.is_closing()):
            self._eof_sent = True
            self._transport.write_eof()

    def pause(self, paused: bool) -> None:
        """Stop or resume reading from the server."""
        if paused != self._paused and not self._transport.is_closing():
            self._paused = paused
            if paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def pause_writing(self) -> None:
        if self._events is not None:
            self._events.pause_client(True)

    def resume_writing(self) -> None:
        if self._events is not None:
            self._events.pause_client(False)

    def ignore(self) -> None:
        """Read and discard the rest, so that the server can end normally."""
        self._events = None
        self.pause(False)

    def abort(self) -> None:
        """Reset the connection, which makes ``wirefault mcp`` kill the server."""
        self._events = None
        if not self._transport.is_closing():
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._transport.abort()
