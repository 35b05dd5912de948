"""A splice on real sockets."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from tests.support import PATIENCE_S
from tests.upstream import FREE
from wirefault.core.sockets import bind, bound_address
from wirefault.gateway.intercept.splice import Splice, Transfer

Drive = Callable[[socket.socket, socket.socket, "asyncio.Task[Transfer]"], Awaitable[object]]


def pair() -> tuple[socket.socket, socket.socket]:
    """The two ends of a TCP connection."""
    with bind(FREE) as listener:
        address = bound_address(listener)
        near = socket.create_connection((address.host, address.port))
        far, _ = listener.accept()
    near.setblocking(False)
    far.setblocking(False)
    return near, far


@asynccontextmanager
async def spliced(
    early: bytes = b"",
) -> AsyncIterator[tuple[socket.socket, socket.socket, asyncio.Task[Transfer]]]:
    """A client's socket, a server's, and the counts of the splice between them."""
    (client, client_end), (server, server_end) = pair(), pair()
    splice = Splice()
    await splice.attach(client_end)
    joined = asyncio.create_task(splice.join(server_end, lambda: early))
    with client, server:
        async with asyncio.timeout(PATIENCE_S):
            yield client, server, joined


def run(drive: Awaitable[object]) -> None:
    async def main() -> None:
        await drive

    uvloop.run(main())


async def receive(connection: socket.socket, size: int) -> bytes:
    loop, data = asyncio.get_running_loop(), b""
    while len(data) < size and (piece := await loop.sock_recv(connection, size - len(data))):
        data += piece
    return data


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def test_bytes_are_counted_in_both_directions() -> None:
    async def drive() -> None:
        async with spliced(b"early ") as (client, server, joined):
            client.send(b"question")
            assert await receive(server, 14) == b"early question"
            server.send(b"answer")
            assert await receive(client, 6) == b"answer"
            client.close()
            server.close()
            transfer = await joined
            assert (transfer.up_bytes, transfer.down_bytes) == (14, 6)
            assert (transfer.ended_by, transfer.how) == ("client", "fin")
            assert transfer.first_sent and transfer.first_received

    run(drive())


def test_half_closed_side_still_receives() -> None:
    async def drive() -> None:
        async with spliced() as (client, server, joined):
            client.shutdown(socket.SHUT_WR)
            assert await receive(server, 1) == b""
            server.send(b"late answer")
            server.shutdown(socket.SHUT_WR)
            assert await receive(client, 99) == b"late answer"
            assert (await joined).how == "fin"

    run(drive())


@pytest.mark.parametrize("by_client", [True, False], ids=["client", "server"])
def test_reset_passes_after_sent_data(by_client: bool) -> None:
    async def drive() -> None:
        async with spliced() as (client, server, joined):
            near, far = (client, server) if by_client else (server, client)
            near.send(b"last words")
            assert await receive(far, 10) == b"last words"
            reset(near)
            with pytest.raises(ConnectionResetError):
                await receive(far, 1)
            transfer = await joined
            assert (transfer.ended_by, transfer.how) == ("client" if by_client else "proxy", "rst")

    run(drive())


def test_slow_reader_loses_nothing() -> None:
    async def drive() -> None:
        loop, size = asyncio.get_running_loop(), 32 << 20
        async with spliced() as (client, server, _):
            sending = asyncio.create_task(loop.sock_sendall(client, bytes(size)))
            server.send(b"begin")
            assert await receive(client, 5) == b"begin"
            assert len(await receive(server, size)) == size
            await sending

    run(drive())


def test_early_server_loss_resets_client() -> None:
    async def drive() -> None:
        async with spliced() as (client, server, joined):
            reset(server)
            with pytest.raises(ConnectionResetError):
                await receive(client, 1)
            assert (await joined).down_bytes == 0

    run(drive())


def test_client_continues_with_another_server_after_reply() -> None:
    async def drive() -> None:
        (client, client_end), (first, first_end), (second, second_end) = pair(), pair(), pair()

        def downward(data: bytes) -> None:
            if data.endswith(b"."):
                splice.leave_server()

        splice = Splice(downward=downward)
        await splice.attach(client_end)
        with client, first, second:
            joined = asyncio.create_task(splice.join(first_end))
            client.send(b"one")
            assert await receive(first, 3) == b"one"
            first.send(b"reply to ")
            assert await receive(client, 9) == b"reply to "
            first.send(b"one.")
            assert (await joined).switched
            assert await receive(first, 1) == b""
            joined = asyncio.create_task(splice.join(second_end, lambda: b"two"))
            assert await receive(second, 3) == b"two"
            second.send(b"reply to two")
            assert await receive(client, 16) == b"one.reply to two"
            client.close()
            second.close()
            assert (await joined).how == "fin"

    run(drive())
