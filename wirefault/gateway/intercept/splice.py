"""Two connections joined into one: bytes, back-pressure, half-close and reset go through both ways."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Literal, cast

from wirefault.gateway.exchange.client import ClientTransport

TLS_RECORD = b"\x16"
_BUFFERED = 256 * 1024  # bytes for a slow reader, above which its sender is not read
_LAST_REPLY_S = 1.0


@dataclass
class Carried:
    """What went through: bytes from the client and from the server, and when the first of each came.

    Times are those of ``time.perf_counter``, None if nothing came. ``ended_by`` was the first to end it, and
    ``how`` is how it did. ``tls``: the client began a TLS handshake. ``switched``: it has
    gone on to another server.
    """

    sent: int = 0
    received: int = 0
    first_sent: float | None = None
    first_received: float | None = None
    ended_by: Literal["client", "proxy", "nobody"] = "nobody"
    how: Literal["fin", "rst", "refused", "open"] = "open"
    tls: bool = False
    switched: bool = False


class _End(asyncio.Protocol):
    """One of the two connections. Both sides' ends are told once each, whatever the loop tells."""

    transport: asyncio.Transport
    other: _End | None = None

    def __init__(self, on_data: Callable[[bytes], None], on_end: Callable[[_End], None]) -> None:
        self.said_all = self.lost = False
        self._on_data = on_data
        self._on_end = on_end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(_BUFFERED)

    def data_received(self, data: bytes) -> None:
        self._on_data(data)

    def eof_received(self) -> bool:
        if not self.said_all:  # uvloop may tell it again
            self.said_all = True
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
        if self.said_all or self.transport.is_closing():
            return
        if on:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()

    def write_eof(self) -> None:
        if not self.transport.is_closing():
            self.transport.write_eof()


class Splice:
    """Carries a client's connection to one server, or to several in turn. To be made in the running loop.

    ``upward``, if given, changes what the client sends. It may call ``leave_server``: what it returns is the
    last that this server gets.
    """

    def __init__(self, upward: Callable[[bytes], bytes] | None = None) -> None:
        self._upward = upward
        self._client = _End(self._up, self._ended)
        self._server: _End | None = None
        self._leaving = False
        self._waiting = b""
        self._carried = Carried()
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def attach(self, client: socket.socket) -> None:
        """Takes the client's socket over. Raises ``OSError`` if it is gone already."""
        await asyncio.get_running_loop().connect_accepted_socket(lambda: self._client, client)
        self._client.read(False)

    async def join(
        self, server: socket.socket, early: Callable[[], bytes] = bytes, carried: Carried | None = None
    ) -> Carried:
        """Carries until either side is gone, both have said all, or the server was left.

        The server's socket is taken over. ``early`` gives what the client has sent already, which goes on as
        it is; ``carried`` is kept while it goes on. A reset is given to the other side as a reset. Only after
        ``switched`` it can be called again.
        """
        loop = asyncio.get_running_loop()
        self._over, self._carried, self._server = loop.create_future(), carried or Carried(), None
        self._leaving = False
        server_end = _End(self._down, self._ended)
        server_end.other = self._client
        await loop.create_connection(lambda: server_end, sock=server)
        self._server = self._client.other = server_end
        self._send_up(early())
        waiting, self._waiting = self._waiting, b""
        self._up(waiting)
        if self._client.said_all or self._client.lost:
            self._ended(self._client)
        self._client.read(True)
        await self._over
        return self._carried

    def leave_server(self) -> None:
        """Lets the server finish what it was asked, a second at most; then ``join`` ends as ``switched``."""
        self._leaving = True
        self._client.read(False)
        asyncio.get_running_loop().call_soon(self._say_goodbye, self._server)

    def _say_goodbye(self, server: _End | None) -> None:
        if server is not None and not self._over.done():
            server.write_eof()
            asyncio.get_running_loop().call_later(_LAST_REPLY_S, self._switch, server)

    def _switch(self, server: _End) -> None:
        if server is self._server and not self._over.done():
            server.transport.abort()
            self._carried.switched = True
            self._carried.ended_by, self._carried.how = "client", "fin"
            self._over.set_result(None)

    def send_down(self, data: bytes) -> None:
        """Tells the client something in the server's place."""
        self._client.transport.write(data)

    def close(self) -> None:
        """Ends the client's connection in order, while it is joined to no server."""
        self._over.cancel()
        ClientTransport(self._client.transport).close(unread=True)

    def _up(self, data: bytes) -> None:
        if self._server is None:  # the loop reads a new connection before it can be told not to
            self._waiting += data
        elif data:
            self._send_up(self._upward(data) if self._upward else data)

    def _send_up(self, data: bytes) -> None:
        if data and self._server is not None:
            if self._carried.first_sent is None:
                self._carried.first_sent = time.perf_counter()
                self._carried.tls = data[:1] == TLS_RECORD
            self._carried.sent += len(data)
            self._server.transport.write(data)

    def _down(self, data: bytes) -> None:
        if self._carried.first_received is None:
            self._carried.first_received = time.perf_counter()
        self._carried.received += len(data)
        self._client.transport.write(data)

    def _ended(self, end: _End) -> None:
        """One side has said all, or is gone."""
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
        if other.said_all:
            end.transport.close()
            other.transport.close()
            self._over.set_result(None)

    def _note_end(self, end: _End) -> None:
        if self._carried.ended_by == "nobody":
            self._carried.ended_by = "client" if end is self._client else "proxy"
            self._carried.how = "rst" if end.lost else "fin"


_TRY_AGAIN_S = 0.05


async def accept_all(
    listener: socket.socket, serve: Callable[[socket.socket], Coroutine[object, object, None]]
) -> None:
    """Has every connection served until it is cancelled, which ends them all before it returns."""
    loop = asyncio.get_running_loop()
    listener.setblocking(False)
    tasks: set[asyncio.Task[None]] = set()
    try:
        while True:
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError:  # the client is gone again, or there are too many
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
    """Waits until there is something to read, or its end; reads nothing."""
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def tell() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(connection, tell)
    try:
        await ready
    finally:
        loop.remove_reader(connection)
