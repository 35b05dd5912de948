"""Raw connections: accept them, and join two into one with back-pressure, half-close and reset intact."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Literal, cast

from wirefault.gateway.exchange.client import ClientTransport
from wirefault.history.events import HowEnded

TLS_RECORD = b"\x16"
_BUFFERED = 256 * 1024  # bytes buffered for a slow reader before its sender is paused


@dataclass
class Transfer:
    """Bytes and times of a joined connection. Times are of ``time.perf_counter``, None if nothing came."""

    # bytes from and to the client
    up_bytes: int = 0
    down_bytes: int = 0
    first_sent: float | None = None
    first_received: float | None = None
    last_received: float | None = None
    # the side that ended it first, and how
    ended_by: Literal["client", "proxy", "neither"] = "neither"
    how: HowEnded = "open"
    # the client began a TLS handshake
    tls: bool = False
    # the client continued with another server
    switched: bool = False


class _End(asyncio.Protocol):
    """One of the two connections. Its end is reported once, however often the loop does."""

    transport: asyncio.Transport
    other: _End | None = None

    def __init__(self, on_data: Callable[[bytes], None], on_end: Callable[[_End], None]) -> None:
        self.at_eof = self.lost = False
        self._on_data = on_data
        self._on_end = on_end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(_BUFFERED)

    def data_received(self, data: bytes) -> None:
        self._on_data(data)

    def eof_received(self) -> bool:
        if not self.at_eof:  # uvloop may warn it again
            self.at_eof = True
            self._on_end(self)
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self._on_end(self)

    def pause_writing(self) -> None:
        if self.other is not None:
            self.other.read(False)

    def resume_writing(self) -> None:
        if self.other is not None:
            self.other.read(True)

    def read(self, on: bool) -> None:
        if self.at_eof or self.transport.is_closing():
            return
        if on:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def write_eof(self) -> None:
        if not self.transport.is_closing():
            self.transport.write_eof()


class Splice:
    """Joins a client's connection to one server, or to several in turn. Must be made in the running loop.

    ``upward`` changes what the client sends; ``downward`` sees what it gets. Either may call
    ``leave_server``.
    """

    def __init__(
        self,
        upward: Callable[[bytes], bytes] | None = None,
        downward: Callable[[bytes], None] | None = None,
    ) -> None:
        self._upward = upward
        self._downward = downward
        self._client = _End(self._up, self._ended)
        self._server: _End | None = None
        self._leaving = False
        self._waiting = b""
        self._transfer = Transfer()
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def attach(self, client: socket.socket) -> None:
        """Take over the client's socket. Raises ``OSError`` if it is closed already."""
        await asyncio.get_running_loop().connect_accepted_socket(lambda: self._client, client)
        self._client.read(False)

    async def join(
        self, server: socket.socket, early: Callable[[], bytes] = bytes, transfer: Transfer | None = None
    ) -> Transfer:
        """Carry bytes until either side is gone, both have ended, or the server was left.

        Takes over the server's socket. ``early`` returns what the client has already sent; ``transfer`` is
        updated meanwhile. A reset is passed on as a reset. May be called again only after ``switched``.
        """
        loop = asyncio.get_running_loop()
        self._over, self._transfer, self._server = loop.create_future(), transfer or Transfer(), None
        self._leaving = False
        server_end = _End(self._down, self._ended)
        server_end.other = self._client
        await loop.create_connection(lambda: server_end, sock=server)
        self._server = self._client.other = server_end
        self._send_up(early())
        waiting, self._waiting = self._waiting, b""
        self._up(waiting)
        if self._client.at_eof or self._client.lost:
            self._ended(self._client)
        self._client.read(True)
        await self._over
        return self._transfer

    def hold_client(self) -> None:
        """Read no more from the client until the next ``join``."""
        self._client.read(False)

    def leave_server(self) -> None:
        """Close the server's connection, which has answered everything; ``join`` returns ``switched``."""
        self._leaving = True
        self._client.read(False)
        asyncio.get_running_loop().call_soon(self._switch, self._server)

    def _switch(self, server: _End | None) -> None:
        if server is not None and server is self._server and not self._over.done():
            server.transport.close()
            self._transfer.switched = True
            self._transfer.ended_by, self._transfer.how = "client", "fin"
            self._over.set_result(None)

    def send_down(self, data: bytes) -> None:
        """Send bytes to the client instead of the server's."""
        self._client.transport.write(data)

    def close(self) -> None:
        """Close the client's connection gracefully, while no server is joined."""
        self._over.cancel()
        ClientTransport(self._client.transport).close(unread=True)

    def _up(self, data: bytes) -> None:
        if self._server is None:  # the loop reads a new connection before it can be paused
            self._waiting += data
        elif data:
            self._send_up(self._upward(data) if self._upward else data)

    def _send_up(self, data: bytes) -> None:
        if data and self._server is not None:
            if self._transfer.first_sent is None:
                self._transfer.first_sent = time.perf_counter()
                self._transfer.tls = data[:1] == TLS_RECORD
            self._transfer.up_bytes += len(data)
            self._server.transport.write(data)

    def _down(self, data: bytes) -> None:
        if self._transfer.first_received is None:
            self._transfer.first_received = time.perf_counter()
        self._transfer.last_received = time.perf_counter()
        self._transfer.down_bytes += len(data)
        self._client.transport.write(data)
        if self._downward:
            self._downward(data)

    def _ended(self, end: _End) -> None:
        """Handle the end of one side."""
        other = end.other
        if self._over.done() or other is None:
            return
        if self._leaving and end is self._server:
            self._switch(end)
            return
        self._note_end(end)
        if end.lost:
            if not other.lost:
                ClientTransport(other.transport).reset()
            self._over.set_result(None)
            return
        other.write_eof()
        if other.at_eof:
            end.transport.close()
            other.transport.close()
            self._over.set_result(None)

    def _note_end(self, end: _End) -> None:
        if self._transfer.ended_by == "neither":
            self._transfer.ended_by = "client" if end is self._client else "proxy"
            self._transfer.how = "rst" if end.lost else "fin"


_TRY_AGAIN_S = 0.05


async def accept_all(
    listener: socket.socket, serve: Callable[[socket.socket], Coroutine[object, object, None]]
) -> None:
    """Serve every connection in a task until cancelled; all tasks have ended when this returns."""
    loop = asyncio.get_running_loop()
    listener.setblocking(False)
    tasks: set[asyncio.Task[None]] = set()
    try:
        while True:
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError:  # the client disconnected, or too many files are open
                await asyncio.sleep(_TRY_AGAIN_S)
                continue
            task = loop.create_task(serve(client))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
    finally:
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tuple(tasks))


async def readable(connection: socket.socket) -> None:
    """Wait until the connection has data or is at its end; read nothing."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def set_ready() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(connection, set_ready)
    try:
        await ready
    finally:
        loop.remove_reader(connection)
