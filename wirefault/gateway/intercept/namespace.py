"""The front's side of the namespace tap: whose connections they are, and where they were to go.

The tap (``wirefault/subjects/taps/enter.py``) offers, at a Unix socket, the socket to which all TCP
connections of a subject's namespace are redirected, and the one to which its questions for names come.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from wirefault.core.lifeline import front_file
from wirefault.gateway.intercept.accepting import accept_all, readable
from wirefault.gateway.intercept.fake_names import FakeNames
from wirefault.gateway.intercept.splice import Splice

# Takes over a connection whose first bytes are not read yet, and the host and port that it was to go to.
Take = Callable[[socket.socket, str, int], Coroutine[object, object, None]]

_OFFERED = 2
_OFFER_BYTES, _DATAGRAM_BYTES = 4096, 4096
_ORIGINAL_DESTINATION = 80  # SO_ORIGINAL_DST, and its namesake for IPv6


def listen_for_namespaces(topology: Path) -> socket.socket:
    """The socket at which the front of the lane with that topology file takes offers. Raises ``OSError``."""
    path = front_file(topology)
    path.unlink(missing_ok=True)  # of one that was killed
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")  # the path itself may be longer than allowed
        listener.listen()
    except OSError:
        listener.close()
        raise
    finally:
        os.close(folder)
    return listener


async def serve_namespaces(listener: socket.socket, take: Take) -> None:
    """Serves every namespace that is offered at this Unix socket, until it is cancelled."""
    await accept_all(listener, partial(_serve, FakeNames(), take, set()))


async def _serve(names: FakeNames, take: Take, leading: set[asyncio.Task[None]], tap: socket.socket) -> None:
    """Serves one until its tap closes the connection."""
    with tap:
        tap.setblocking(False)
        await readable(tap)
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
            await _Namespace(tap, connections, questions, names, take, leading).serve()
        except (OSError, ValueError, AttributeError):  # it was killed, or what it says is no offer
            return
        finally:
            for offered in sockets:
                offered.close()


class _Namespace:
    """One subject's. ``helper`` is the connection to the process inside that makes sockets of its network."""

    def __init__(
        self,
        helper: socket.socket,
        connections: socket.socket,
        questions: socket.socket,
        names: FakeNames,
        take: Take,
        leading: set[asyncio.Task[None]],
    ) -> None:
        self._helper = helper
        self._connections = connections
        self._questions = questions
        self._names = names
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._leading = leading
        self._asked: deque[asyncio.Future[socket.socket]] = deque()
        questions.setblocking(False)

    async def serve(self) -> None:
        """Returns when the helper is gone, and with it the subject."""
        self._loop.add_reader(self._helper, self._hear_helper)
        self._loop.add_reader(self._questions, self._answer_question)
        accepting = self._loop.create_task(accept_all(self._connections, self._begin))
        try:
            await self._ended
        finally:
            accepting.cancel()
            await asyncio.wait([accepting])
            self._loop.remove_reader(self._helper)
            self._loop.remove_reader(self._questions)

    async def _begin(self, client: socket.socket) -> None:
        """Leads it in a task that outlives the namespace, since what was carried is still to be recorded."""
        leading = self._loop.create_task(self._lead(client))
        self._leading.add(leading)
        leading.add_done_callback(self._leading.discard)

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
            splice = Splice()
            await splice.attach(client)
            await splice.join(inside)

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
            if not self._ended.done():
                self._ended.set_result(None)

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
