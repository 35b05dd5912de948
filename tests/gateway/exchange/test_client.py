"""The client's end of a connection, on a real socket."""

from __future__ import annotations

import asyncio

import pytest

from tests.gateway.exchange.sockets import accepted, eventually
from wirefault.gateway.exchange.client import ClientTransport, PauseReason


def test_reads_only_without_pause_reasons() -> None:
    async def drive() -> None:
        async with accepted() as (transport, received, socket):
            client = ClientTransport(transport)
            client.pause(PauseReason.FAULT_DELAY, True)
            client.pause(PauseReason.UPSTREAM_FULL, True)
            client.pause(PauseReason.FAULT_DELAY, False)
            assert not transport.is_reading()
            socket.send(b"waits")
            client.pause(PauseReason.UPSTREAM_FULL, False)
            await eventually(lambda: received.data == b"waits")

    asyncio.run(drive())


def test_sending_client_gets_whole_reply_before_close() -> None:
    async def drive() -> None:
        async with accepted() as (transport, _, socket):
            client = ClientTransport(transport)
            client.write(b"reply")
            client.close(unread=True)
            loop = asyncio.get_running_loop()
            assert client.closing and not transport.is_closing()
            assert await loop.sock_recv(socket, 9) == b"reply"
            assert await loop.sock_recv(socket, 9) == b""

    asyncio.run(drive())


def test_reset_follows_last_write() -> None:
    async def drive() -> None:
        async with accepted() as (transport, received, socket):
            client = ClientTransport(transport)
            client.write(b"part")
            client.reset()
            await received.lost
            loop = asyncio.get_running_loop()
            assert await loop.sock_recv(socket, 4) == b"part"
            with pytest.raises(ConnectionResetError):
                await loop.sock_recv(socket, 4)

    asyncio.run(drive())


def test_first_timer_counts_until_stopped() -> None:
    async def drive() -> None:
        async with accepted() as (transport, _, _):
            client, expired = ClientTransport(transport), []
            client.start_timer(60, lambda: expired.append("first"))
            client.start_timer(0, lambda: expired.append("second"))
            client.stop_timer()
            client.start_timer(0, lambda: expired.append("third"))
            await eventually(lambda: expired)
            assert expired == ["third"]

    asyncio.run(drive())
