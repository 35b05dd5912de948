"""Where a lab listens, for people: all of its addresses, and which ports were taken and moved."""

from __future__ import annotations

from collections.abc import Iterator

from windtunnel.core.sockets import Address
from windtunnel.links.catalog import LINKS
from windtunnel.links.topology import Topology, default_topology


def address_rows(topology: Topology) -> list[tuple[str, str, str, str]]:
    """link, where its caller dials, the gateway behind that, the upstream."""
    return [
        (name, str(topology.proxies[name]), str(topology.gateways[name]), str(topology.services[name]))
        for name in (link.name for link in LINKS)
    ]


def moved_ports(topology: Topology) -> list[str]:
    """Each port that was taken, with the one that the lab has in its place."""
    wanted = dict(_addresses(default_topology(topology.lab_id, topology.lane)))
    return [
        f"{wanted[what].port} ({what}) to {address.port}"
        for what, address in _addresses(topology)
        if address.port != wanted[what].port
    ]


def _addresses(topology: Topology) -> Iterator[tuple[str, Address]]:
    """What listens where. A Toxiproxy that was there before the lab is none of the lab's."""
    for link in LINKS:
        yield f"proxy of {link.name}", topology.proxies[link.name]
        yield f"gateway of {link.name}", topology.gateways[link.name]
        yield f"service of {link.name}", topology.services[link.name]
    yield "manager", topology.manager
    yield "gateway control", topology.control
    if not topology.proxy_prefix:
        yield "Toxiproxy", Address.parse(topology.toxiproxy.removeprefix("http://"))
