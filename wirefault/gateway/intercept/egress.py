"""Egress for connections that bypass the links: a tunnel proxy in the gateway's process, and its client.

The ingress cannot reach other hosts itself: in Compose it has no network with outside access.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from wirefault.core.sockets import Address, is_this_machine
from wirefault.gateway.closed_networks import NETWORK_CLOSED, ClosedNetworks
from wirefault.gateway.http1.heads import BadHead
from wirefault.gateway.intercept.arrival import (
    TUNNEL_OPEN,
    ProxyRequest,
    proxy_refusal,
    read_proxy_request,
)
from wirefault.gateway.intercept.policy import intercept_of, wired_route
from wirefault.gateway.intercept.splice import Splice, accept_all
from wirefault.wiring.topology import Topology

_HEAD_S = 10.0
_CONNECT_S = 10.0
_PIECE = 64 * 1024

# Whether that host and port may be dialled.
MayDial = Callable[[str, int], bool]


def dial_policy(topology: Topology) -> MayDial:
    """Return what may be dialled: everything, or offline this machine and the upstreams of its links."""
    offline = intercept_of(topology).offline
    return lambda host, port: (
        not offline or is_this_machine(host) or wired_route(topology, host, port) is not None
    )


class EgressError(Exception):
    """The host was not dialled, or not reached; the message says why."""


class Egress:
    """Opens tunnels for the ingress."""

    def __init__(self, may_dial: MayDial, closed: ClosedNetworks) -> None:
        self._may_dial = may_dial
        self._closed = closed

    async def serve(self, listener: socket.socket) -> None:
        """Serve tunnels until cancelled."""
        await accept_all(listener, self._serve_client)

    async def _serve_client(self, client: socket.socket) -> None:
        try:
            request, rest = await read_first_request(client)
            server = await self._dial(request.target)
        except (BadHead, EgressError) as error:
            await _refuse(client, 400 if isinstance(error, BadHead) else 502, str(error))
        except OSError:  # the client disconnected
            client.close()
        else:
            splice = Splice()
            await splice.attach(client)
            splice.send_down(TUNNEL_OPEN)
            await splice.join(server, lambda: rest)

    async def _dial(self, target: Address) -> socket.socket:
        if not self._may_dial(target.host, target.port):
            raise EgressError(f"{target} was not dialled: this lab is offline")
        return await dial_host(target, self._closed)


async def _refuse(client: socket.socket, status: int, reason: str) -> None:
    with client:
        try:
            await asyncio.get_running_loop().sock_sendall(client, proxy_refusal(status, reason))
        except OSError:  # the client disconnected
            return


async def read_first_request(client: socket.socket) -> tuple[ProxyRequest, bytes]:
    """Return a client's request to the proxy and the bytes after it.

    Raises ``BadHead`` for anything else, ``OSError`` if the client disconnects first.
    """
    pending, loop = b"", asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_HEAD_S):
            while True:
                data = await loop.sock_recv(client, _PIECE)
                if not data:
                    raise ConnectionResetError("the client sent no request")
                request, pending = read_proxy_request(pending + data)
                if request is not None:
                    return request, pending
    except TimeoutError:
        raise BadHead("the header block did not come in time", 408) from None


async def dial_host(target: Address, closed: ClosedNetworks) -> socket.socket:
    """Connect to the first of the host's open addresses that answers. Raises ``EgressError``."""
    loop = asyncio.get_running_loop()
    reason = "it has no address"
    try:
        async with asyncio.timeout(_CONNECT_S):
            addresses = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
            for family, _, _, _, address in addresses:
                if closed.closes(str(address[0]), target.port):
                    reason = NETWORK_CLOSED
                    continue
                try:
                    return await dial(socket.socket(family), address)
                except OSError as error:
                    reason = error.strerror or str(error)
    except TimeoutError:
        reason = f"no connection within {_CONNECT_S:g} s"
    except (OSError, UnicodeError) as error:  # an unknown or invalid name
        reason = str(error)
    raise EgressError(f"{target} cannot be reached: {reason}")


async def dial(connection: socket.socket, address: tuple[object, ...]) -> socket.socket:
    """Connect the socket. Raises ``OSError``, and closes it."""
    connection.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(connection, address)
    except BaseException:
        connection.close()
        raise
    return connection


async def dial_through(egress: Address, target: Address) -> socket.socket:
    """Connect to the target by way of the egress. Raises ``EgressError``."""
    loop = asyncio.get_running_loop()
    try:
        connection = await dial(socket.socket(), (egress.host, egress.port))
    except OSError as error:
        raise EgressError(f"the gateway's egress at {egress} cannot be reached: {error}") from None
    try:
        await loop.sock_sendall(connection, f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
        reply = b""
        # not a byte more than the reply: the server may speak first
        while len(reply) < len(TUNNEL_OPEN):
            data = await loop.sock_recv(connection, len(TUNNEL_OPEN) - len(reply))
            if not data:
                break
            reply += data
        if reply == TUNNEL_OPEN:
            return connection
        while data := await loop.sock_recv(connection, _PIECE):
            reply += data
        reason = reply.partition(b"\r\n\r\n")[2].decode("utf-8", "replace").strip()
        raise EgressError(reason.removeprefix("wirefault: ") or "the gateway's egress closed")
    except (OSError, EgressError) as error:
        connection.close()
        raise EgressError(str(error)) from None
