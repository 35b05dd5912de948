"""The front's side of the namespace tap: whose connections they are, and where they were to go.

The tap (``windtunnel/subjects/taps/enter.py``) offers, at a Unix socket, the socket to which all TCP
connections of a subject's namespace are redirected, and the one to which its questions for names come.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from windtunnel.gateway.intercept.fake_names import FakeNames

# Takes over a connection whose first bytes are not read yet, and the host and port that it was to go to.
Take = Callable[[socket.socket, str, int], Awaitable[None]]

_OFFERED = 2
_OFFER_BYTES, _DATAGRAM_BYTES, _PIECE_BYTES = 4096, 4096, 65536
_ORIGINAL_DESTINATION = 80  # SO_ORIGINAL_DST, and its namesake for IPv6
_BUSY_S = 0.05
_RESET = struct.pack("ii", 1, 0)


def namespaces_socket(topology: Path) -> Path:
    """Where the front of the lane with that topology file takes what namespace taps offer."""
    return topology.with_suffix(".front")


async def serve_namespaces(listener: socket.socket, take: Take) -> None:
    """Serves every namespace that is offered at this Unix socket, until it is cancelled."""
    listener.setblocking(False)
    names = FakeNames()
    loop = asyncio.get_running_loop()
    async with asyncio.TaskGroup() as namespaces:
        while True:
            tap, _ = await loop.sock_accept(listener)
            namespaces.create_task(_serve(tap, names, take))


async def _serve(tap: socket.socket, names: FakeNames, take: Take) -> None:
    """Serves one until its tap closes the connection."""
    with tap:
        tap.setblocking(False)
        await _readable(tap)
        try:
            offer, descriptors, _, _ = socket.recv_fds(tap, _OFFER_BYTES, _OFFERED)
        except OSError:  # it was killed
            return
        sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        try:
            if json.loads(offer).get("tap") != "namespace" or len(sockets) != _OFFERED:
                return
            await asyncio.get_running_loop().sock_sendall(tap, b'{"ok": true}\n')
            connections, questions = sockets
            await _Namespace(tap, connections, questions, names, take).serve()
        except (OSError, ValueError, AttributeError):  # it was killed, or what it says is no offer
            return
        finally:
            for offered in sockets:
                offered.close()


async def _readable(connection: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(connection, _set, ready)
    try:
        await ready
    finally:
        loop.remove_reader(connection)


def _set(event: asyncio.Future[None]) -> None:
    if not event.done():
        event.set_result(None)


class _Namespace:
    """One subject's. ``helper`` is the connection to the process inside that makes sockets of its network."""

    def __init__(
        self,
        helper: socket.socket,
        connections: socket.socket,
        questions: socket.socket,
        names: FakeNames,
        take: Take,
    ) -> None:
        self._helper = helper
        self._connections = connections
        self._questions = questions
        self._names = names
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._asked: deque[asyncio.Future[socket.socket]] = deque()
        for each in (connections, questions):
            each.setblocking(False)

    async def serve(self) -> None:
        """Returns when the helper is gone, and with it the subject."""
        self._loop.add_reader(self._helper, self._hear_helper)
        self._loop.add_reader(self._questions, self._answer_question)
        try:
            async with asyncio.TaskGroup() as connections:
                accepting = connections.create_task(self._accept(connections))
                await self._ended
                accepting.cancel()
        finally:
            self._loop.remove_reader(self._helper)
            self._loop.remove_reader(self._questions)

    async def _accept(self, connections: asyncio.TaskGroup) -> None:
        while True:
            try:
                client, _ = await self._loop.sock_accept(self._connections)
            except OSError:  # it is gone already, or there are too many
                await asyncio.sleep(_BUSY_S)
                continue
            connections.create_task(self._lead(client))

    async def _lead(self, client: socket.socket) -> None:
        """Leads the connection to where it belongs: a server inside, or whatever the front makes of it."""
        try:
            address, port = _destination(client)
            inside = await self._dial_inside(address, port) if address.is_loopback else None
        except OSError:
            client.close()
            return
        if inside is None:
            await self._take(client, self._names.name(address), port)
        else:
            await _join(client, inside)

    async def _dial_inside(self, address: IPv4Address | IPv6Address, port: int) -> socket.socket | None:
        """A connection to a server that the subject itself has started; None if there is none."""
        asked = self._loop.create_future()
        self._asked.append(asked)
        await self._loop.sock_sendall(self._helper, str(address.version).encode())
        inside: socket.socket = await asked
        try:
            await self._loop.sock_connect(inside, (str(address), port))
        except OSError:
            inside.close()
            return None
        return inside

    def _hear_helper(self) -> None:
        """Gives each socket that it made to the one who asked for it, in the order of asking."""
        try:
            said, descriptors, _, _ = socket.recv_fds(self._helper, len(b"."), 1)
        except BlockingIOError:
            return
        except OSError:
            said, descriptors = b"", []
        for descriptor in descriptors:
            made = socket.socket(fileno=descriptor)
            made.setblocking(False)
            asked = self._asked.popleft()
            if asked.done():  # cancelled
                made.close()
            else:
                asked.set_result(made)
        if not said:
            self._loop.remove_reader(self._helper)
            for asked in self._asked:
                asked.cancel()
            _set(self._ended)

    def _answer_question(self) -> None:
        with suppress(OSError):  # it does not wait for the answer any more
            query, client = self._questions.recvfrom(_DATAGRAM_BYTES)
            if answer := self._names.answer(query):
                self._questions.sendto(answer, client)


def _destination(client: socket.socket) -> tuple[IPv4Address | IPv6Address, int]:
    """Where a redirected connection was to go. Raises ``OSError`` if it was not redirected."""
    peer = ip_address(client.getpeername()[0])
    if isinstance(peer, IPv6Address) and peer.ipv4_mapped is None:
        found = client.getsockopt(socket.IPPROTO_IPV6, _ORIGINAL_DESTINATION, 28)
        port, packed = struct.unpack_from("!2xH4x16s", found)
    else:
        found = client.getsockopt(socket.IPPROTO_IP, _ORIGINAL_DESTINATION, 16)
        port, packed = struct.unpack_from("!2xH4s", found)
    return ip_address(packed), port


async def _join(first: socket.socket, second: socket.socket) -> None:
    """Carries bytes both ways until both have said all, or one is gone: the other then is reset, too."""
    with first, second:
        first.setblocking(False)
        try:
            async with asyncio.TaskGroup() as directions:
                directions.create_task(_carry(first, second))
                directions.create_task(_carry(second, first))
        except* OSError:
            for each in (first, second):
                each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)


async def _carry(source: socket.socket, target: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while piece := await loop.sock_recv(source, _PIECE_BYTES):
        await loop.sock_sendall(target, piece)
    target.shutdown(socket.SHUT_WR)
