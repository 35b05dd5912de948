"""One accepted connection: both ends, a link in each direction, and listen addresses."""

from __future__ import annotations

import asyncio
import os
import re
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import cast

from wirefault.toxiproxy.embedded.go_json import ApiError
from wirefault.toxiproxy.embedded.toxic_chain import ToxicCollection, ToxicLink

_BACKLOG = 1024
_WILDCARDS = ("", "0.0.0.0", "::")


def split_host_port(address: str) -> tuple[str, int]:
    """Split ``host:port`` or ``[host]:port``; raises ``ValueError`` with the real server's message."""
    host, colon, port = address.rpartition(":")
    if not colon:
        raise _invalid_address(address, "missing port in address")
    rest = address
    if address.startswith("["):
        inside, closing, after = address[1:].partition("]")
        if not closing:
            raise _invalid_address(address, "missing ']' in address")
        if after != f":{port}":
            raise _invalid_address(
                address, f"{'too many colons' if after.startswith(':') else 'missing port'} in address"
            )
        host, rest = inside, inside + after
    elif ":" in host:
        raise _invalid_address(address, "too many colons in address")
    for bracket in "[]":
        if bracket in rest:
            raise _invalid_address(address, f"unexpected '{bracket}' in address")
    return host, _port(port)


def _port(text: str) -> int:
    if not text:
        return 0
    if re.fullmatch(r"[+-]?[0-9]*", text):
        number = int(text) if text.strip("+-") else 0
        if 0 <= number <= 65535:
            return number
        raise _invalid_address(text, "invalid port")
    try:
        return socket.getservbyname(text.lower(), "tcp")
    except (OSError, ValueError) as error:
        raise ValueError(f"lookup tcp/{text}: unknown port") from error


def _invalid_address(address: str, reason: str) -> ValueError:
    return ValueError(f"address {address}: {reason}")


def join_host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def resolve_address(address: str) -> tuple[str, int]:
    """Return host and port, the host name resolved (IPv4 first); raises ``ValueError``."""
    host, port = split_host_port(address) if address else ("", 0)
    if not host:
        return host, port
    try:
        if _is_address_for_c_only(host):
            raise socket.gaierror
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        raise ValueError(f"lookup {host}: no such host") from error
    infos.sort(key=lambda info: info[0] != socket.AF_INET)
    return str(infos[0][4][0]), port


def _is_address_for_c_only(host: str) -> bool:
    """Whether the C library accepts the address but Go does not: 127.1, 010.0.0.1."""
    try:
        socket.inet_aton(host)
    except (OSError, UnicodeError):
        return False
    try:
        socket.inet_pton(socket.AF_INET, host)
    except OSError:
        return True
    return False


async def open_listener(address: str) -> socket.socket:
    """Open a listening socket; raises ``ApiError`` (500) as the real server does."""
    try:
        host, port = await resolve_address(address)
    except ValueError as error:
        raise ApiError(f"listen tcp: {error}", 500) from error
    try:
        return _bind(host, port)
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise ApiError(f"listen tcp {join_host_port(host, port)}: bind: {reason}", 500) from error


def _bind(host: str, port: int) -> socket.socket:
    if host in _WILDCARDS and socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


class FullQueue:
    """Fills the queue of a listening socket, from which nothing is accepted: further clients must wait.

    With a queue of length 0 Linux still completes one connection, and drops the SYN of all others. Their
    kernels repeat it after 1, 3 and 7 s, so a client may connect some seconds after ``release``.
    """

    _CONNECTS_WITHIN_S = 0.02  # over loopback it is done before ``connect`` returns
    _MAX_FILLERS = 2048

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._fillers: list[socket.socket] = []
        listener.listen(0)
        while len(self._fillers) < self._MAX_FILLERS and self._fill():
            pass

    def _fill(self) -> bool:
        """Add one connection; False if the queue is full."""
        host, port = self._listener.getsockname()[:2]
        if host in _WILDCARDS:
            host = "::1" if self._listener.family == socket.AF_INET6 else "127.0.0.1"
        filler = socket.socket(self._listener.family)
        filler.setblocking(False)
        with suppress(BlockingIOError):
            filler.connect((host, port))
        if select.select([], [filler], [], self._CONNECTS_WITHIN_S)[1]:
            self._fillers.append(filler)
            return True
        filler.close()
        return False

    def release(self) -> list[socket.socket]:
        """Empty the queue, and return the connections of clients that were in it."""
        own = {filler.getsockname()[:2] for filler in self._fillers}
        clients = []
        self._listener.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                accepted, address = self._listener.accept()
                if address[:2] in own:
                    accepted.close()
                else:
                    clients.append(accepted)
        self.close()
        return clients

    def close(self) -> None:
        for filler in self._fillers:
            filler.close()


class ConnectionEnd(asyncio.Protocol):
    """One end of a connection: feeds the outgoing link, paces the incoming one."""

    def __init__(self, on_made: Callable[[], None], on_lost: Callable[[], None]) -> None:
        self._on_made = on_made
        self._on_lost = on_lost
        self._early: bytes = b""
        self._ended = False
        self._outgoing: ToxicLink | None = None
        self._incoming: ToxicLink | None = None
        self.transport: asyncio.Transport
        self.lost = False
        self._made = self._aborted = False

    def join(self, outgoing: ToxicLink, incoming: ToxicLink) -> None:
        """Start both links; data received earlier goes first."""
        self._outgoing, self._incoming = outgoing, incoming
        if self._early:
            outgoing.receive(self._early)
            self._early = b""
        if self._ended:
            outgoing.end()
        elif not self.transport.is_closing():
            self.transport.resume_reading()

    def abort(self) -> None:
        """Close this end at once, or as soon as it has a transport."""
        self._aborted = True
        if self._made:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._made = True
        if self._aborted:
            self.transport.abort()
        else:
            self._on_made()

    def data_received(self, data: bytes) -> None:
        if self._outgoing is not None:
            self._outgoing.receive(data)
        else:
            self._early += data
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        self._ended = True
        if self._outgoing is not None:
            self._outgoing.end()
        return True  # keep the transport open: the link closes it after delivering everything

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = self._ended = True
        if self._incoming is not None:
            self._incoming.kill()
        if self._outgoing is not None:
            self._outgoing.end()
        self._on_lost()

    def pause_writing(self) -> None:
        if self._incoming is not None:
            self._incoming.block()

    def resume_writing(self) -> None:
        if self._incoming is not None:
            self._incoming.unblock()


class ProxyConnection:
    """Dials the upstream for an accepted client and joins both ends through the proxy's toxics."""

    def __init__(
        self,
        upstream: str,
        toxics: ToxicCollection,
        count: Callable[[str, str, int], None],
        on_end: Callable[[ProxyConnection], None],
    ) -> None:
        self.client = ConnectionEnd(self._accepted, self._end_lost)
        self._upstream: ConnectionEnd | None = None
        self._address = upstream
        self._toxics = toxics
        self._count = count
        self._on_end = on_end
        self._links: tuple[tuple[str, ToxicLink], ...] = ()
        self._dialling: asyncio.Task[None] | None = None

    def abort(self) -> None:
        """Close both ends at once."""
        for end in (self.client, self._upstream):
            if end is not None:
                end.abort()

    def _accepted(self) -> None:
        self._dialling = asyncio.get_running_loop().create_task(self._open())

    async def _open(self) -> None:
        """Dial the upstream; close the client's end if that fails."""
        loop = asyncio.get_running_loop()
        try:
            host, port = split_host_port(self._address)
            dialled = await loop.create_connection(
                lambda: ConnectionEnd(lambda: None, self._end_lost), host, port
            )
        except (OSError, ValueError):
            self.client.transport.close()
            return
        self._upstream = dialled[1]
        if self.client.transport.is_closing():
            self.abort()
        else:
            self._join(loop, self.client, self._upstream)

    def _join(self, loop: asyncio.AbstractEventLoop, client: ConnectionEnd, upstream: ConnectionEnd) -> None:
        near, far = client.transport, upstream.transport
        for toxic in self._toxics:
            toxic.definition.on_accept((near.get_extra_info("socket"), far.get_extra_info("socket")))

        def link(stream: str, source: asyncio.Transport, destination: asyncio.Transport) -> ToxicLink:
            count = partial(self._count, stream)
            return ToxicLink(loop, source, destination, self._toxics.chain(stream), count)

        up, down = link("upstream", near, far), link("downstream", far, near)
        self._links = (("upstream", up), ("downstream", down))
        for stream, opened in self._links:
            self._toxics.open(stream, opened)
        client.join(outgoing=up, incoming=down)
        upstream.join(outgoing=down, incoming=up)

    def _end_lost(self) -> None:
        """End the links and the connection once both ends are lost."""
        if self.client.lost and (self._upstream is None or self._upstream.lost):
            for stream, link in self._links:
                self._toxics.close(stream, link)
                link.kill()
            self._on_end(self)
