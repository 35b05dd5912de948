"""The ingress's end of the namespace tap: accepts redirected connections and answers name queries.

The tap (``wirefault/subjects/taps/enter.py``) offers two sockets over a Unix socket: the one to which all TCP
connections of a subject's namespace are redirected, and the one that gets its DNS queries.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address
from pathlib import Path
from typing import Protocol

from wirefault.core.processes import ingress_file
from wirefault.core.sockets import LOOPBACK
from wirefault.gateway.intercept.splice import Splice, accept_all, readable

# reserved for benchmarks between networks (RFC 2544): no server has such an address
_RANGE = IPv4Network("198.18.0.0/15")
_HEADER = struct.Struct("!6H")
_ADDRESS_RECORD = struct.Struct("!3HIH")
_A, _IN = 1, 1
_TTL_S = 3600
_POINTER_TO_NAME = 0xC00C
_ANSWER_FLAGS, _RECURSION_DESIRED = 0x8080, 0x0100  # a response, recursion available
_BAD_FORMAT, _NO_ADDRESS_LEFT, _NO_SUCH_NAME = 1, 2, 3


class FakeNames:
    """Gives each queried name its own address, so that a connection's address shows the name."""

    def __init__(self) -> None:
        self._addresses: dict[str, IPv4Address] = {}
        self._names: dict[IPv4Address, str] = {}

    def address(self, name: str) -> IPv4Address:
        """Return the name's address, always the same. Raises ``LookupError`` when none is left."""
        if name == "localhost" or name.endswith(".localhost"):
            return IPv4Address(LOOPBACK)
        if name not in self._addresses:
            number = len(self._addresses) + 1
            if number >= _RANGE.num_addresses - 1:
                raise LookupError(name)
            address = self._addresses[name] = _RANGE[number]
            self._names[address] = name
        return self._addresses[name]

    def name(self, address: IPv4Address | IPv6Address) -> str:
        """Return the name that has that address, or the address itself as text."""
        return self._names.get(address, str(address)) if isinstance(address, IPv4Address) else str(address)

    def answer(self, query: bytes, failing: int = 0) -> bytes:
        """Return the reply to a DNS query for one name; empty if it is not a query.

        ``failing`` is the code of a failure, 0 for none. Names have only IPv4 addresses.
        """
        if len(query) < _HEADER.size:
            return b""
        number, flags, queries, *_ = _HEADER.unpack_from(query)
        if flags & 0x8000:  # a response
            return b""
        try:
            name, end = _name_at(query, _HEADER.size)
            kind, network = struct.unpack_from("!2H", query, end)
        except (IndexError, ValueError, struct.error):
            return _HEADER.pack(number, _ANSWER_FLAGS | _BAD_FORMAT, 0, 0, 0, 0)
        code, record = 0, b""
        if name.endswith(".arpa") or queries != 1:
            code = _NO_SUCH_NAME
        elif failing:
            code = failing
        elif (kind, network) == (_A, _IN):
            try:
                address = self.address(name).packed
                record = _ADDRESS_RECORD.pack(_POINTER_TO_NAME, _A, _IN, _TTL_S, len(address)) + address
            except LookupError:
                code = _NO_ADDRESS_LEFT
        flags = _ANSWER_FLAGS | flags & _RECURSION_DESIRED | code
        question = query[_HEADER.size : end + 4]
        return _HEADER.pack(number, flags, 1, bool(record), 0, 0) + question + record


def queried(query: bytes) -> tuple[str, bool]:
    """Return the name of a DNS query, empty if it has none, and whether it asks for an IPv4 address."""
    try:
        name, end = _name_at(query, _HEADER.size)
        return name, struct.unpack_from("!2H", query, end) == (_A, _IN)
    except (IndexError, ValueError, struct.error):
        return "", False


def _name_at(query: bytes, at: int) -> tuple[str, int]:
    """Return the name in lower case and the offset of its end. Raises ``IndexError`` or ``ValueError``."""
    labels = []
    while length := query[at]:
        if length > 63 or at + length >= len(query):
            raise ValueError("bad label")
        labels.append(query[at + 1 : at + 1 + length].decode("ascii").lower())
        at += 1 + length
    if not labels:
        raise ValueError("the root has no address")
    return ".".join(labels), at + 1


class Failing(Protocol):
    """Returns the DNS code with which a name must fail, 0 if it resolves; ``record``: in the history."""

    def __call__(self, name: str, *, record: bool) -> Awaitable[int]: ...


async def _none_fails(name: str, *, record: bool) -> int:
    return 0


# Takes over an unread connection, with the host and port of its destination.
Take = Callable[[socket.socket, str, int], Coroutine[object, object, None]]

_OFFERED_SOCKETS = 2
_OFFER_BYTES, _DATAGRAM_BYTES = 4096, 4096
_ORIGINAL_DESTINATION = 80  # SO_ORIGINAL_DST, and its namesake for IPv6


def open_offer_socket(topology: Path) -> socket.socket:
    """Open the Unix socket at which the lane's ingress takes offers. Raises ``OSError``."""
    path = ingress_file(topology)
    path.unlink(missing_ok=True)  # left by a killed ingress
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


async def serve_namespaces(listener: socket.socket, take: Take, failing: Failing = _none_fails) -> None:
    """Serve every namespace that is offered at this Unix socket, until cancelled."""
    await accept_all(listener, partial(_serve, FakeNames(), take, failing, set()))


async def _serve(
    names: FakeNames, take: Take, failing: Failing, tasks: set[asyncio.Task[None]], tap: socket.socket
) -> None:
    """Serve one namespace until its tap closes the connection."""
    with tap:
        tap.setblocking(False)
        await readable(tap)
        try:
            offer, descriptors, _, _ = socket.recv_fds(tap, _OFFER_BYTES, _OFFERED_SOCKETS)
        except OSError:  # the tap was killed
            return
        sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        try:
            if json.loads(offer).get("tap") != "namespace" or len(sockets) != _OFFERED_SOCKETS:
                return
            await asyncio.get_running_loop().sock_sendall(tap, b'{"ok": true}\n')
            connections, queries = sockets
            await _Namespace(tap, connections, queries, names, take, failing, tasks).serve()
        except (OSError, ValueError, AttributeError):  # the tap was killed, or sent no offer
            return
        finally:
            for offered in sockets:
                offered.close()


class _Namespace:
    """One subject's namespace. ``helper`` connects to the process inside that makes sockets of its
    network.
    """

    def __init__(
        self,
        helper: socket.socket,
        connections: socket.socket,
        queries: socket.socket,
        names: FakeNames,
        take: Take,
        failing: Failing,
        tasks: set[asyncio.Task[None]],
    ) -> None:
        self._helper = helper
        self._connections = connections
        self._queries = queries
        self._names = names
        self._take = take
        self._failing = failing
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._tasks = tasks
        self._waiting: deque[asyncio.Future[socket.socket]] = deque()
        queries.setblocking(False)

    async def serve(self) -> None:
        """Return when the helper is gone, and with it the subject."""
        self._loop.add_reader(self._helper, self._receive_socket)
        self._loop.add_reader(self._queries, self._answer_query)
        accepting = self._loop.create_task(accept_all(self._connections, self._begin))
        try:
            await self._ended
        finally:
            accepting.cancel()
            await asyncio.wait([accepting])
            self._loop.remove_reader(self._helper)
            self._loop.remove_reader(self._queries)

    async def _begin(self, client: socket.socket) -> None:
        self._start(self._handle(client))

    def _start(self, work: Coroutine[object, object, None]) -> None:
        """Do it in a task that outlives the namespace, so that its record is still written."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _handle(self, client: socket.socket) -> None:
        """Join the connection to a server inside the namespace, else hand it to the ingress."""
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
        """Connect to a server that the subject itself has started; None if none listens there."""
        future = self._loop.create_future()
        self._waiting.append(future)
        await self._loop.sock_sendall(self._helper, str(address.version).encode())
        inside: socket.socket = await future
        try:
            await self._loop.sock_connect(inside, (str(address), port))
        except OSError:
            inside.close()
            return None
        return inside

    def _receive_socket(self) -> None:
        """Give each socket that the helper made to the earliest request for one."""
        try:
            data, descriptors, _, _ = socket.recv_fds(self._helper, len(b"."), 1)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors = b"", []
        for descriptor in descriptors:
            made = socket.socket(fileno=descriptor)
            made.setblocking(False)
            future = self._waiting.popleft()
            if future.done():  # cancelled
                made.close()
            else:
                future.set_result(made)
        if not data:
            self._loop.remove_reader(self._helper)
            for future in self._waiting:
                future.cancel()
            if not self._ended.done():
                self._ended.set_result(None)

    def _answer_query(self) -> None:
        with suppress(OSError):  # the client no longer waits
            query, client = self._queries.recvfrom(_DATAGRAM_BYTES)
            self._start(self._answer(query, client))

    async def _answer(self, query: bytes, client: tuple[str, int]) -> None:
        name, record = queried(query)
        failing = await self._failing(name, record=record) if name else 0
        with suppress(OSError):  # the client no longer waits, or the namespace has ended
            if answer := self._names.answer(query, failing):
                self._queries.sendto(answer, client)


def _destination(client: socket.socket) -> tuple[IPv4Address | IPv6Address, int]:
    """Return a redirected connection's original destination. Raises ``OSError`` if it was not redirected."""
    peer = ip_address(client.getpeername()[0])
    if isinstance(peer, IPv6Address) and peer.ipv4_mapped is None:
        option = client.getsockopt(socket.IPPROTO_IPV6, _ORIGINAL_DESTINATION, 28)
        port, packed = struct.unpack_from("!2xH4x16s", option)
    else:
        option = client.getsockopt(socket.IPPROTO_IP, _ORIGINAL_DESTINATION, 16)
        port, packed = struct.unpack_from("!2xH4s", option)
    return ip_address(packed), port
