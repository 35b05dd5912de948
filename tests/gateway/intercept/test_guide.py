"""Where a connection is led before anything is dialled for it."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from tests.support import PATIENCE_S
from windtunnel.gateway.intercept.arrival import Arrival
from windtunnel.gateway.intercept.guide import Guide, Refused
from windtunnel.gateway.intercept.lane_state import LaneState
from windtunnel.gateway.intercept.policy import Policy
from windtunnel.gateway.intercept.proxy_requests import Asked
from windtunnel.gateway.intercept.routes import Routes
from windtunnel.links.links import Links
from windtunnel.links.topology import default_topology


def test_a_request_to_an_address_is_led_at_once_since_its_client_says_no_more(tmp_path: Path) -> None:
    topology = default_topology("lab", links=Links((), grows=True))
    routes = Routes(lambda: topology, LaneState(tmp_path / "state.db", "lab", 0))
    guide = Guide(routes, Policy(offline=True), lambda: None)

    async def lead(client: socket.socket) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await guide.lead(Arrival(client, "192.0.2.1", 80, "proxy", Asked.REQUEST))

    subject, client = socket.socketpair()
    client.setblocking(False)
    with subject, client, pytest.raises(Refused, match="offline"):
        asyncio.run(lead(client))
