"""The ingress's side of the namespace tap: whose connections they are, and where they were to go.

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
from ipaddress import IPv4Address, IPv4Network, IPv6Address, ip_address
from pathlib import Path

from wirefault.core.processes import ingress_file
from wirefault.core.sockets import LOOPBACK
from wirefault.gateway.intercept.splice import Splice, accept_all, readable

# set apart for measurements between networks (RFC 2544): no server has such an address
_RANGE = IPv4Network("198.18.0.0/15")
_HEADER = struct.Struct("!6H")
_ADDRESS_RECORD = struct.Struct("!3HIH")
_A, _IN = 1, 1
_TTL_S = 3600
_NAME_OF_QUESTION = 0xC00C
_ANSWER_FLAGS, _RECURSION_ASKED = 0x8080, 0x0100  # an answer, of a server that asks others
_BAD_FORMAT, _NO_ADDRESS_LEFT, _NO_SUCH_NAME = 1, 2, 3


class FakeNames:
    """The names that were asked for, and the addresses that were given for them."""

    def __init__(self) -> None:
        self._addresses: dict[str, IPv4Address] = {}
        self._names: dict[IPv4Address, str] = {}

    def address(self, name: str) -> IPv4Address:
        """Always the same for that name. Raises ``LookupError`` when none is left."""
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
        """The name for which that address was given; of any other the address itself."""
        return self._names.get(address, str(address)) if isinstance(address, IPv4Address) else str(address)

    def answer(self, query: bytes) -> bytes:
        """The reply to a DNS query for one name; empty for what is none.

        There are addresses of IPv4 alone: of any other kind of record a name has none.
        """
        if len(query) < _HEADER.size:
            return b""
        number, flags, questions, *_ = _HEADER.unpack_from(query)
        if flags & 0x8000:  # itself an answer
            return b""
        try:
            name, end = _name_at(query, _HEADER.size)
            kind, network = struct.unpack_from("!2H", query, end)
        except (IndexError, ValueError, struct.error):
            return _HEADER.pack(number, _ANSWER_FLAGS | _BAD_FORMAT, 0, 0, 0, 0)
        code, record = 0, b""
        if name.endswith(".arpa") or questions != 1:
            code = _NO_SUCH_NAME
        elif (kind, network) == (_A, _IN):
            try:
                address = self.address(name).packed
                record = _ADDRESS_RECORD.pack(_NAME_OF_QUESTION, _A, _IN, _TTL_S, len(address)) + address
            except LookupError:
                code = _NO_ADDRESS_LEFT
        flags = _ANSWER_FLAGS | flags & _RECURSION_ASKED | code
        question = query[_HEADER.size : end + 4]
        return _HEADER.pack(number, flags, 1, bool(record), 0, 0) + question + record


def _name_at(query: bytes, at: int) -> tuple[str, int]:
    """The name, in small letters, and where it ends. Raises ``IndexError`` or ``ValueError``."""
    labels = []
    while length := query[at]:
        if length > 63 or at + length >= len(query):
            raise ValueError("no label")
        labels.append(query[at + 1 : at + 1 + length].decode("ascii").lower())
        at += 1 + length
    if not labels:
        raise ValueError("the root has no address")
    return ".".join(labels), at + 1


# Takes over a connection whose first bytes are not read yet, and the host and port that it was to go to.
Take = Callable[[socket.socket, str, int], Coroutine[object, object, None]]

_OFFERED = 2
_OFFER_BYTES, _DATAGRAM_BYTES = 4096, 4096
_ORIGINAL_DESTINATION = 80  # SO_ORIGINAL_DST, and its namesake for IPv6


def listen_for_namespaces(topology: Path) -> socket.socket:
    """Open the Unix socket at which the lane's ingress takes offers. Raises ``OSError``."""
    path = ingress_file(topology)
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
        """Leads the connection to where it belongs: a server inside, or whatever the ingress makes of it."""
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
