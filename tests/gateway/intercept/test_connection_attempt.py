"""The attempt of a connection is recorded before its client can end the attempt."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from wirefault.gateway.intercept.arrival import Arrival
from wirefault.gateway.intercept.ingress import Ingress
from wirefault.gateway.intercept.lane_state import ArmedAttempt, IngressHistory, LaneState
from wirefault.gateway.intercept.router import Refused, Route, Router
from wirefault.history.events import ConnectionEnded, WentPastLab
from wirefault.history.reader import read_file
from wirefault.history.writer import history_file


class SlowState:
    """``state.db`` whose reader blocks until ``go_on``."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def attempt(self) -> ArmedAttempt | None:
        await self.go_on.wait()
        return ArmedAttempt("run-1", "e1", 1)

    async def is_running(self, run_id: str) -> bool:
        return True


class OneRoute:
    """Route every connection to that server, or to none."""

    def __init__(self, server: socket.socket | None) -> None:
        self._server = server

    async def route(self, arrival: Arrival) -> Route:
        if self._server is None:
            raise Refused(502, "it is down", "shop")
        return Route(self._server, "shop")


class Unlinked:
    """Tunnel every connection to that server, without a link."""

    def __init__(self, server: socket.socket) -> None:
        self._server = server

    async def route(self, arrival: Arrival) -> Route:
        return Route(self._server, why="32 other hosts have links already", unlinked=True)


def is_told_nothing(end: socket.socket) -> bool:
    with pytest.raises(BlockingIOError):
        end.recv(1)
    return True


async def carry(logs: Path, refused: bool) -> None:
    state = SlowState()
    client, taken = socket.socketpair()
    dialled, server = socket.socketpair()
    with client, server, closing(IngressHistory(logs, 0, cast(LaneState, state), pytest.fail)) as history:
        for end in (client, dialled, server):
            end.setblocking(False)
        router = cast(Router, OneRoute(None if refused else dialled))
        ingress = Ingress(router, cast(LaneState, state), history, "token")
        client.send(b"GET / HTTP/1.1\r\n\r\n")
        transfer = asyncio.ensure_future(ingress.take(taken, "shop.test", 80))
        for _ in range(20):  # more loop iterations than needed
            await asyncio.sleep(0)
        assert is_told_nothing(client) and is_told_nothing(server)
        state.go_on.set()
        client.shutdown(socket.SHUT_WR)
        server.close()
        await transfer
        dialled.close()


@pytest.mark.parametrize("refused", [True, False], ids=["refused", "transfer"])
def test_attempt_is_known_before_any_reply(tmp_path: Path, refused: bool) -> None:
    asyncio.run(carry(tmp_path, refused))
    (ended,) = read_file(history_file(tmp_path, "run-1", "ingress", 0))
    assert isinstance(ended, ConnectionEnded)
    assert (ended.link, ended.episode, ended.how == "refused") == ("shop", "e1", refused)


def test_tunnel_without_link_is_recorded_as_bypass(tmp_path: Path) -> None:
    async def carry_unlinked() -> None:
        client, taken = socket.socketpair()
        dialled, server = socket.socketpair()
        for end in (client, dialled, server):
            end.setblocking(False)
        state = SlowState()
        state.go_on.set()
        with (
            client,
            server,
            closing(IngressHistory(tmp_path, 0, cast(LaneState, state), pytest.fail)) as history,
        ):
            router = cast(Router, Unlinked(dialled))
            ingress = Ingress(router, cast(LaneState, state), history, "token")
            client.shutdown(socket.SHUT_WR)
            server.close()
            await ingress.take(taken, "shop.test", 80)

    asyncio.run(carry_unlinked())
    ended, past = read_file(history_file(tmp_path, "run-1", "ingress", 0))
    assert isinstance(ended, ConnectionEnded) and isinstance(past, WentPastLab)
    assert (past.host, past.port, past.episode) == ("shop.test", 80, "e1")
