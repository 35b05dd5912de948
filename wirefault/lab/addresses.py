"""The listening addresses of a lab: bind the sockets, and list the addresses for users."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace

from wirefault.core.sockets import LOOPBACK, Address, bind_or_replace, bound_address
from wirefault.wiring.links import SCRIPTED
from wirefault.wiring.topology import Topology, default_topology


def address_rows(topology: Topology) -> list[tuple[str, str, str, str]]:
    """Rows of link, address for the caller, gateway behind it, upstream."""
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
    """Each occupied port with its replacement."""
    wanted = dict(_addresses(default_topology(topology.lab_id, topology.lane, links=topology.links)))
    return [
        f"{wanted[what].port} ({what}) to {address.port}"
        for what, address in _addresses(topology)
        if address.port != wanted[what].port
    ]


def _addresses(topology: Topology) -> Iterator[tuple[str, Address]]:
    """Each listener with its address. A Toxiproxy that was already running is not the lab's."""
    for name in topology.links.names:
        yield f"proxy of {name}", topology.proxies[name]
        yield f"gateway of {name}", topology.gateways[name]
        if name in topology.services:
            yield f"service of {name}", topology.services[name]
    yield "manager", topology.manager
    yield "gateway control", topology.control
    if not topology.proxy_prefix:
        yield "Toxiproxy", Address.parse(topology.toxiproxy.removeprefix("http://"))


# by lane and name; shared sockets belong to lane 0
Sockets = dict[tuple[int, str], socket.socket]


def bind_services(topology: Topology) -> tuple[Sockets, Topology]:
    """Bind the lab's services; return the sockets and the topology with their addresses.

    One server serves all links to the scripted model.
    """
    server = {SCRIPTED: SCRIPTED}
    server |= {link.name: SCRIPTED if link.upstream == SCRIPTED else link.service for link in topology.links}
    wanted: dict[str, Address] = {}
    for name, address in topology.services.items():
        wanted.setdefault(server[name], address)
    sockets = {(0, name): bind_or_replace(address) for name, address in wanted.items()}
    services = {name: bound_address(sockets[0, server[name]]) for name in topology.services}
    return sockets, replace(topology, services=services)


def bind_lane(topology: Topology) -> tuple[Sockets, Topology]:
    """Bind one lane's gateway, control, ingress and manager; return the sockets and the topology."""
    lane = topology.lane
    wanted = {f"gateway_{name}": address for name, address in topology.gateways.items()}
    wanted |= {"control": topology.control, "manager": topology.manager}
    if topology.ingress is not None:
        wanted["ingress"] = topology.ingress
    if topology.egress is not None:
        wanted["egress"] = topology.egress
    sockets = {(lane, name): bind_or_replace(address) for name, address in wanted.items()}
    at = {name: bound_address(listener) for (_, name), listener in sockets.items()}
    gateways = {name: at[f"gateway_{name}"] for name in topology.gateways}
    at_lane = replace(topology, gateways=gateways, control=at["control"], manager=at["manager"])
    return sockets, replace(at_lane, ingress=at.get("ingress"), egress=at.get("egress"))


def bind_toxiproxy(address: Address = Address(LOOPBACK, 0)) -> tuple[Sockets, str]:  # noqa: B008 - immutable
    """Bind a socket for the lab's Toxiproxy; return it and its URL."""
    listener = bind_or_replace(address)
    return {(0, "toxiproxy"): listener}, bound_address(listener).url


def lanes_with(lanes: Sequence[Topology], services: Topology, toxiproxy: str, prefix: str) -> list[Topology]:
    """All lanes with the parts that they share."""
    return [
        replace(lane, services=services.services, toxiproxy=toxiproxy, proxy_prefix=prefix) for lane in lanes
    ]
