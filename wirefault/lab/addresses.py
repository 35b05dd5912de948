"""Where a lab listens, for people: all of its addresses, and which ports were taken and moved."""

from __future__ import annotations

from collections.abc import Iterator

from wirefault.core.sockets import Address
from wirefault.wiring.topology import Topology, default_topology


def address_rows(topology: Topology) -> list[tuple[str, str, str, str]]:
    """link, where its caller dials, the gateway behind that, the upstream."""
    return [
        (
            link.name,
            str(topology.proxies[link.name]),
            str(topology.gateways[link.name]),
            str(topology.services.get(link.name, link.upstream)),
        )
        for link in topology.links
    ]


def moved_ports(topology: Topology) -> list[str]:
    """Each port that was taken, with the one that the lab has in its place."""
    wanted = dict(_addresses(default_topology(topology.lab_id, topology.lane, links=topology.links)))
    return [
        f"{wanted[what].port} ({what}) to {address.port}"
        for what, address in _addresses(topology)
        if address.port != wanted[what].port
    ]


def _addresses(topology: Topology) -> Iterator[tuple[str, Address]]:
    """What listens where. A Toxiproxy that was there before the lab is none of the lab's."""
    for name in topology.links.names:
        yield f"proxy of {name}", topology.proxies[name]
        yield f"gateway of {name}", topology.gateways[name]
        if name in topology.services:
            yield f"service of {name}", topology.services[name]
    yield "manager", topology.manager
    yield "gateway control", topology.control
    if not topology.proxy_prefix:
        yield "Toxiproxy", Address.parse(topology.toxiproxy.removeprefix("http://"))
