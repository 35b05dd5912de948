"""Where a connection is led before anything is dialled for it."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from tests.support import PATIENCE_S
from wirefault.gateway.intercept.arrival import Arrival, RequestKind
from wirefault.gateway.intercept.lane_state import LaneState
from wirefault.gateway.intercept.policy import Policy
from wirefault.gateway.intercept.router import LinkRoutes, Refused, Router
from wirefault.state.state import State
from wirefault.wiring.links import Links
from wirefault.wiring.topology import default_topology

NOTHING_WIRED = default_topology("lab", links=Links((), grows=True))


def test_absolute_request_to_ip_is_routed_at_once(tmp_path: Path) -> None:
    routes = LinkRoutes(lambda: NOTHING_WIRED, LaneState(tmp_path / "state.db", "lab", 0))
    router = Router(routes, Policy(offline=True), lambda: None)

    async def route(client: socket.socket) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await router.route(Arrival(client, "192.0.2.1", 80, "proxy", RequestKind.REQUEST))

    subject, client = socket.socketpair()
    client.setblocking(False)
    with subject, client, pytest.raises(Refused, match="offline"):
        asyncio.run(route(client))


def test_failed_link_is_lab_failure(tmp_path: Path) -> None:
    state = LaneState(tmp_path / "state.db", "lab", 0)
    router = Router(LinkRoutes(lambda: NOTHING_WIRED, state), Policy(), lambda: None)

    async def fail_what_is_wanted() -> None:
        while not (rows := await state.link_rows()):
            await asyncio.sleep(0.001)
        with State(tmp_path / "state.db") as manager:
            manager.found_links.mark_failed("lab", 0, rows[0].link.name, "no free port")

    async def route(client: socket.socket) -> None:
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as together:
            together.create_task(fail_what_is_wanted())
            with pytest.raises(Refused, match="could not be opened: no free port") as refused:
                await router.route(Arrival(client, "shop.example", 80, "proxy", RequestKind.REQUEST))
            assert refused.value.lab_failed

    subject, client = socket.socketpair()
    client.setblocking(False)
    with subject, client:
        asyncio.run(route(client))
    state.close()
