"""Connections taken from a listening socket, each in a task of its own, and what is waited for on one."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine

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
