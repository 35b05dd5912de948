"""Names of this machine in its hosts file: clients connect to their addresses."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import PATIENCE_S
from wirefault.gateway.intercept.arrival import Arrival, RequestKind
from wirefault.gateway.intercept.hosts_file import HostsFile
from wirefault.gateway.intercept.lane_state import LaneState
from wirefault.gateway.intercept.link_routes import LinkRoutes
from wirefault.gateway.intercept.policy import LinkRoute, Policy
from wirefault.gateway.intercept.router import Refused, Route, Router
from wirefault.wiring.links import Link, Links
from wirefault.wiring.topology import default_topology

TEXT = """
127.0.0.1 localhost Shop.Test  # the shop
::1 six.test
10.1.2.3 far.test
bad line
0.0.0.0 blocked.test
"""
WIRED = default_topology(
    "lab", links=Links([Link("shop", "http://127.0.0.1:9", hosts=("shop.test",))], grows=True)
)


@pytest.fixture
def hosts(tmp_path: Path) -> HostsFile:
    (tmp_path / "hosts").write_text(TEXT, encoding="utf-8")
    return HostsFile(tmp_path / "hosts")


def test_names_lead_to_addresses_of_this_machine(hosts: HostsFile) -> None:
    names = ("shop.test", "six.test", "far.test", "blocked.test", "none.test")
    assert [hosts.loopback_of(name) for name in names] == [("127.0.0.1",), ("::1",), (), ("127.0.0.1",), ()]
    assert hosts.leads("shop.test", "127.0.0.1") and not hosts.leads("shop.test", "::1")


def test_changed_and_missing_file_is_read_again(hosts: HostsFile, tmp_path: Path) -> None:
    assert hosts.leads("six.test", "::1")
    (tmp_path / "hosts").write_text("::1 other.test", encoding="utf-8")
    os.utime(tmp_path / "hosts", ns=(1, 1))
    assert hosts.leads("other.test", "::1") and not hosts.leads("six.test", "::1")
    (tmp_path / "hosts").unlink()
    assert not hosts.leads("other.test", "::1")


class Taken(Exception):
    """The route that a connection got, without a connection."""


class Routed(Router):
    async def _dial(self, route: LinkRoute, arrival: Arrival) -> Route:
        raise Taken(f"link {route.link}")

    async def _tunnel(self, arrival: Arrival, why: str) -> Route:
        raise Taken(f"tunnel: {why}")

    async def _route_to_new_host(self, arrival: Arrival) -> Route:
        raise Taken(f"new link for {arrival.host}")


@pytest.fixture
def route(hosts: HostsFile, tmp_path: Path) -> Callable[..., str]:
    """How a client of the namespace tap that sends these bytes is led."""

    def led(policy: Policy, data: bytes, host: str = "127.0.0.1", kind: RequestKind | None = None) -> str:
        async def arrive(client: socket.socket) -> None:
            routes = LinkRoutes(lambda: WIRED, LaneState(tmp_path / "state.db", "lab", 0))
            async with asyncio.timeout(PATIENCE_S):
                router = Routed(routes, policy, lambda: None, hosts)
                await router.route(Arrival(client, host, 9000, "namespace", kind))

        subject, client = socket.socketpair()
        client.setblocking(False)
        with subject, client:
            subject.sendall(data)
            with pytest.raises((Taken, Refused)) as raised:
                asyncio.run(arrive(client))
        return str(raised.value)

    return led


SHOP = b"GET / HTTP/1.1\r\nAccept: */*\r\nhost: Shop.test:9000\r\n\r\n"


@pytest.mark.parametrize(
    ("policy", "way"),
    [
        (Policy(), "link shop"),
        (Policy(offline=True), "link shop"),
        (Policy(refused=["shop.test"]), "--refuse names it"),
        (Policy(refused=["shop_test"]), "--refuse names it"),
        (Policy(refused=["localhost:9000"]), "--refuse names it"),
        (Policy(passed=["shop.test:9000"]), "tunnel: --pass names it"),
        (Policy(passed=["shop.test:9001"]), "link shop"),
        (Policy(only=["shop.test"]), "link shop"),
        (Policy(only=["other.test"]), "tunnel: it is not among the hosts of --only"),
    ],
)
def test_rules_and_wired_hosts_go_by_the_name(route: Callable[..., str], policy: Policy, way: str) -> None:
    assert route(policy, SHOP) == way
    assert route(policy, b"", "shop.test", RequestKind.REQUEST) == way  # the proxy tap gets the name


@pytest.mark.parametrize(
    ("data", "host"),
    [
        (b"GET / HTTP/1.1\r\nHost: api.openai.com\r\n\r\n", "127.0.0.1"),  # leads elsewhere
        (b"GET / HTTP/1.1\r\nHost: far.test\r\n\r\n", "127.0.0.1"),
        (b"GET / HTTP/1.1\r\nHost: localhost:9000\r\n\r\n", "127.0.0.1"),
        (b"GET / HTTP/1.1\r\n\r\nHost: shop.test\r\n", "127.0.0.1"),  # in the body
        (b"GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n", "::1"),
    ],
)
def test_host_that_leads_elsewhere_is_no_name(route: Callable[..., str], data: bytes, host: str) -> None:
    assert route(Policy(), data, host) == f"new link for {host}"


def test_name_of_this_machine_does_not_open_the_labs_own_servers(hosts: HostsFile, tmp_path: Path) -> None:
    lab = default_topology("lab", links=Links((), grows=True))

    async def arrive(client: socket.socket) -> None:
        routes = LinkRoutes(lambda: lab, LaneState(tmp_path / "state.db", "lab", 0))
        arrival = Arrival(client, "shop.test", lab.control.port, "proxy", RequestKind.REQUEST)
        await Routed(routes, Policy(), lambda: None, hosts).route(arrival)

    with socket.socket() as client, pytest.raises(Refused, match="the lab's own servers"):
        asyncio.run(arrive(client))
