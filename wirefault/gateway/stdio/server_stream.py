"""The connection of ``wirefault mcp`` by which its server's two streams go."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Protocol, cast

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
