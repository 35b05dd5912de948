"""One accepted TCP connection in the running loop: our transport, and the client's own socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

from tests.gateway.lab import dial
from tests.support import until
from tests.upstream import FREE
from wirefault.core.sockets import bind, bound_address


class Received(asyncio.Protocol):
    """Keeps the client's bytes."""

    def __init__(self) -> None:
        self.data = b""
        self.lost = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.data += data

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(error)


@asynccontextmanager
async def accepted() -> AsyncIterator[tuple[asyncio.Transport, Received, socket.socket]]:
    """The transport of an accepted connection, its received bytes, and the client's socket."""
    loop = asyncio.get_running_loop()
    with bind(FREE) as listener, dial(bound_address(listener)) as client:
        connection, _ = listener.accept()
        client.setblocking(False)
        transport, received = await loop.connect_accepted_socket(Received, connection)
        yield cast(asyncio.Transport, transport), received, client
        transport.abort()


async def eventually(condition: Callable[[], object]) -> None:
    """Lets the loop run until the condition holds."""
    await asyncio.to_thread(until, condition)
