"""A byte stream as lines, and lines of many senders as one byte stream. Pure."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol, cast

MAX_LINE = 16 << 20


class Line(NamedTuple):
    """Bytes of a stream; ``whole``: one line from its beginning to its end, which is included."""

    data: bytes
    whole: bool


class LineSplitter:
    """Splits a stream into lines. One longer than 16 MiB is given out in pieces, none of which is whole."""

    def __init__(self, longest: int = MAX_LINE) -> None:
        self._longest = longest
        self._rest = bytearray()
        self._in_pieces = False

    def feed(self, data: bytes) -> list[Line]:
        """The lines that these bytes complete."""
        lines: list[Line] = []
        start = 0
        while end := data.find(b"\n", start) + 1:
            lines.append(Line(bytes(self._rest) + data[start:end], not self._in_pieces))
            self._rest.clear()
            self._in_pieces = False
            start = end
        self._rest += data[start:]
        if len(self._rest) > self._longest or (self._in_pieces and self._rest):
            self._in_pieces = True
            lines.append(Line(bytes(self._rest), False))
            self._rest.clear()
        return lines

    def end(self) -> bytes:
        """The last line of a stream that has ended in the middle of it; empty if it has not."""
        rest = bytes(self._rest)
        self._rest.clear()
        return rest


class LineSequence:
    """Writes lines of several senders one after the other: none begins in the middle of another's line."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._sender: object = None  # of the line under way
        self._waiting: deque[tuple[object, bytes]] = deque()

    def write(self, sender: object, data: bytes) -> None:
        """Sends these bytes, or keeps them until the line that another sender has begun is over."""
        if self._sender is None or self._sender is sender:
            self._send(sender, data)
            self._send_waiting()
        else:
            self._waiting.append((sender, data))

    def release(self, sender: object) -> None:
        """That sender sends no more: what is next follows on its line, if that has no end."""
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
_CLIENT_IS_THERE = b"{}\n"


class ServerEvents(Protocol):
    """What the server's stream reports."""

    def on_server_data(self, data: bytes) -> None: ...

    def on_server_end(self) -> None: ...

    def pause_client(self, paused: bool) -> None: ...


class ServerStream(asyncio.Protocol):
    """``lost``: it is over. What the server says before ``join`` waits."""

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
        """Its client is there, which ``wirefault mcp`` is told by a line before all others."""
        self._events = events
        self.write(_CLIENT_IS_THERE)
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
        """The server's input ends here."""
        if not (self._eof_sent or self._transport.is_closing()):
            self._eof_sent = True
            self._transport.write_eof()

    def pause(self, paused: bool) -> None:
        """Stops or resumes reading what the server says."""
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
        """What the server still says is read, and thrown away: it shall end in order."""
        self._events = None
        self.pause(False)

    def abort(self) -> None:
        """The server is to be killed, which a reset says."""
        self._events = None
        if not self._transport.is_closing():
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._transport.abort()
