"""Networks that the gateway of a lab in containers does not dial for a subject."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from wirefault.core.sockets import Address
from wirefault.gateway.closed_networks import ALL_OPEN, ClosedNetworks, closed_networks
from wirefault.gateway.intercept.egress import EgressError, dial_host

# eth0 is on 172.30.4.0/22, everything else is behind 172.31.0.1 on eth1's 172.31.0.0/16
ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth1\t00000000\t01001FAC\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t00041EAC\t00000000\t0001\t0\t0\t0\t00FCFFFF\t0\t0\t0
eth1\t00001FAC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
"""


@pytest.fixture
def closed(tmp_path: Path) -> ClosedNetworks:
    (tmp_path / "route").write_text(ROUTES)
    return closed_networks("gateway-control", tmp_path / "route")


@pytest.mark.parametrize(
    "address",
    ["172.30.4.2", "172.30.7.254", "172.31.0.1", "127.0.0.11", "0.0.0.0", "::1", "::ffff:172.30.4.2"],
)
def test_gateway_networks_are_closed(closed: ClosedNetworks, address: str) -> None:
    assert closed.closes(address, 80)


@pytest.mark.parametrize("address", ["172.30.8.1", "172.17.0.1", "93.184.216.34", "2606:2800:220:1::1"])
def test_network_behind_router_is_open(closed: ClosedNetworks, address: str) -> None:
    assert not closed.closes(address, 80)


def test_single_machine_closes_no_network(tmp_path: Path) -> None:
    assert closed_networks("127.0.0.1", tmp_path / "none") == ALL_OPEN
    assert not ALL_OPEN.closes("127.0.0.1", 80)


def test_own_servers_are_closed_under_any_name() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        closed = ALL_OPEN.with_servers([Address("127.0.0.1", port)])
        for host in ("localhost", "127.1", "0.0.0.0"):
            with pytest.raises(EgressError, match="the lab's own"):
                asyncio.run(dial_host(Address(host, port), closed))
        assert not closed.closes("93.184.216.34", port)


def test_tunnel_to_closed_network_is_refused(closed: ClosedNetworks) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = Address("localhost", server.getsockname()[1])
        with pytest.raises(EgressError, match="it is the lab's own"):
            asyncio.run(dial_host(target, closed))
        asyncio.run(dial_host(target, ALL_OPEN)).close()
