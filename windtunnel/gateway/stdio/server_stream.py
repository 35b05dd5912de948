"""The connection back to ``windtunnel mcp``, by which its server's two streams go."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Protocol, cast

from windtunnel.gateway.stdio.expected_servers import ExpectedServer

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER: on, no time


class ServerEvents(Protocol):
    """What the server's stream reports."""

    def on_server_there(self) -> None: ...

    def on_server_data(self, data: bytes) -> None: ...

    def on_server_end(self) -> None: ...

    def pause_client(self, paused: bool) -> None: ...


class ServerStream(asyncio.Protocol):
    """Opens itself, and sends the token first."""

    def __init__(self, expected: ExpectedServer, connect_timeout: float, events: ServerEvents) -> None:
        self.token = expected.token
        self._events = events
        self._ended = self._paused = self._eof_sent = False
        self._transport: asyncio.Transport | None = None
        self._opening = asyncio.ensure_future(self._open(expected, connect_timeout))

    async def _open(self, expected: ExpectedServer, connect_timeout: float) -> None:
        try:
            async with asyncio.timeout(connect_timeout):
                await asyncio.get_running_loop().create_connection(
                    lambda: self, expected.address.host, expected.address.port
                )
        except OSError:  # TimeoutError is one
            self._end()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._ended:
            self._transport.abort()
            return
        self._transport.write(self.token.encode() + b"\n")
        self._events.on_server_there()

    def data_received(self, data: bytes) -> None:
        if not self._ended:
            self._events.on_server_data(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._end()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            self._events.on_server_end()

    def write(self, data: bytes) -> None:
        if self._open_transport and not self._eof_sent:
            self._open_transport.write(data)

    @property
    def _open_transport(self) -> asyncio.Transport | None:
        return None if self._transport is None or self._transport.is_closing() else self._transport

    def send_eof(self) -> None:
        """The server's input ends here."""
        if self._open_transport and not self._eof_sent:
            self._eof_sent = True
            self._open_transport.write_eof()

    def eof_received(self) -> bool:
        self._end()
        return False

    def pause(self, paused: bool) -> None:
        """Stops or resumes reading what the server says."""
        if self._open_transport and paused != self._paused:
            self._paused = paused
            if paused:
                self._open_transport.pause_reading()
            else:
                self._open_transport.resume_reading()

    def pause_writing(self) -> None:
        self._events.pause_client(True)

    def resume_writing(self) -> None:
        self._events.pause_client(False)

    def ignore(self) -> None:
        """What the server still says is read, and thrown away: it shall end in order."""
        self._ended = True
        self.pause(False)
        if self._transport is None:
            self._opening.cancel()

    def abort(self) -> None:
        """The server is to be killed, which a reset says."""
        self._ended = True
        if self._open_transport:
            sock = self._open_transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._open_transport.abort()
