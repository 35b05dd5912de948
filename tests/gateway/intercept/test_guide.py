"""Where a connection is led before anything is dialled for it."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from tests.support import PATIENCE_S
from wirefault.gateway.intercept.arrival import Arrival, Asked
from wirefault.gateway.intercept.lane_state import LaneState
from wirefault.gateway.intercept.policy import Policy
from wirefault.gateway.intercept.router import Guide, Refused, Routes
from wirefault.state.state import State
from wirefault.wiring.links import Links
from wirefault.wiring.topology import default_topology

NOTHING_WIRED = default_topology("lab", links=Links((), grows=True))


def test_a_request_to_an_address_is_led_at_once_since_its_client_says_no_more(tmp_path: Path) -> None:
    routes = Routes(lambda: NOTHING_WIRED, LaneState(tmp_path / "state.db", "lab", 0))
    guide = Guide(routes, Policy(offline=True), lambda: None)

    async def lead(client: socket.socket) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await guide.lead(Arrival(client, "192.0.2.1", 80, "proxy", Asked.REQUEST))

    subject, client = socket.socketpair()
    client.setblocking(False)
    with subject, client, pytest.raises(Refused, match="offline"):
        asyncio.run(lead(client))


def test_a_link_that_cannot_be_opened_is_the_lab_s_failure(tmp_path: Path) -> None:
    state = LaneState(tmp_path / "state.db", "lab", 0)
    guide = Guide(Routes(lambda: NOTHING_WIRED, state), Policy(), lambda: None)

    async def fail_what_is_wanted() -> None:
        while not (rows := await state.found()):
            await asyncio.sleep(0.001)
        with State(tmp_path / "state.db") as manager:
            manager.found_links.mark_failed("lab", 0, rows[0].link.name, "no free port")

    async def lead(client: socket.socket) -> None:
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as together:
            together.create_task(fail_what_is_wanted())
            with pytest.raises(Refused, match="could not be opened: no free port") as refused:
                await guide.lead(Arrival(client, "shop.example", 80, "proxy", Asked.REQUEST))
            assert refused.value.lab_failed

    subject, client = socket.socketpair()
    client.setblocking(False)
    with subject, client:
        asyncio.run(lead(client))
    state.close()
