"""Routing decisions, before anything is dialled."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from tests.support import PATIENCE_S
from wirefault.gateway.intercept.arrival import Arrival, RequestKind
from wirefault.gateway.intercept.lane_state import LaneState
from wirefault.gateway.intercept.link_routes import LinkRoutes
from wirefault.gateway.intercept.pipes import CLIENT_PORT, SERVER_PORT, PipeServer, pipe_link
from wirefault.gateway.intercept.policy import Policy
from wirefault.gateway.intercept.router import Refused, Route, Router
from wirefault.state.state import State
from wirefault.wiring.links import MAX_FOUND_LINKS, Link, Links, found_link
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


@pytest.mark.parametrize(
    ("server", "link"),
    [
        (PipeServer("notes", "aa"), "notes"),
        (PipeServer("notes", "bb"), "notes_2"),
        (PipeServer("notes", "cc"), "notes"),  # the same server, started from another folder
    ],
)
def test_pipe_server_of_the_wiring_uses_its_link(tmp_path: Path, server: PipeServer, link: str) -> None:
    first = pipe_link(PipeServer("notes", "aa"), ())
    second = pipe_link(PipeServer("notes", "bb"), [first.name])
    shop = Link("shop", "http://127.0.0.1:1")
    topology = default_topology("lab", links=Links((shop, first, second), grows=True))
    routes = LinkRoutes(lambda: topology, LaneState(tmp_path / "state.db", "lab", 0))
    proxy, gateway = (asyncio.run(routes.pipe_address(server, port)) for port in (CLIENT_PORT, SERVER_PORT))
    assert (proxy, gateway) == (topology.proxies[link], topology.gateways[link])


def with_links(folder: Path, count: int) -> LaneState:
    """The state of a lane in which that many hosts have links."""
    with State(folder / "state.db") as manager:
        for number in range(count):
            link = found_link(f"invented-{number}.test", 80, "http", [])
            manager.found_links.want("lab", 0, link)
            manager.found_links.mark_open("lab", 0, link.name, "127.0.0.1:1", "127.0.0.1:2")
    return LaneState(folder / "state.db", "lab", 0)


class TunnelRouter(Router):
    """A router whose outbound connections reach every host or none."""

    def __init__(self, state: LaneState, reached: socket.socket | None) -> None:
        super().__init__(LinkRoutes(lambda: NOTHING_WIRED, state), Policy(), lambda: None)
        self._reached = reached

    async def _tunnel(self, arrival: Arrival, why: str) -> Route:
        if self._reached is None:
            raise Refused(502, f"{arrival.host} cannot be reached", why="unknown name")
        return Route(self._reached, why=why)


def route_to_new_host(router: Router) -> Route:
    async def route(client: socket.socket) -> Route:
        async with asyncio.timeout(PATIENCE_S):
            return await router.route(Arrival(client, "shop.example", 80, "proxy", RequestKind.REQUEST))

    subject, client = socket.socketpair()
    client.setblocking(False)
    with subject, client:
        return asyncio.run(route(client))


def test_invented_hosts_get_no_links_beyond_limit(tmp_path: Path) -> None:
    state = with_links(tmp_path, 16)
    with pytest.raises(Refused, match="cannot be reached"):
        route_to_new_host(TunnelRouter(state, None))
    state.close()
    with State(tmp_path / "state.db") as manager:
        assert len(manager.found_links.rows("lab", 0)) == 16


def test_host_beyond_limit_counts_as_bypass(tmp_path: Path) -> None:
    state = with_links(tmp_path, MAX_FOUND_LINKS)
    near, far = socket.socketpair()
    with near, far:
        route = route_to_new_host(TunnelRouter(state, near))
    assert route.tunnelled and route.unlinked and "32 other hosts" in route.why
    state.close()
