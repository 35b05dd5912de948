"""Where a lab listens, for people: all of its addresses, and which ports were taken and moved."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from dataclasses import replace

from wirefault.core.sockets import LOOPBACK, Address, address_of, bind_or_replace
from wirefault.wiring.links import SCRIPTED
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


# by lane and name; what all lanes share is lane 0's
Sockets = dict[tuple[int, str], socket.socket]


def bind_services(topology: Topology) -> tuple[Sockets, Topology]:
    """Sockets for the services of the lab, and the topology with their addresses.

    One server is the scripted model of every link that leads to one.
    """
    server = {SCRIPTED: SCRIPTED}
    server |= {link.name: SCRIPTED if link.upstream == SCRIPTED else link.service for link in topology.links}
    wanted: dict[str, Address] = {}
    for name, address in topology.services.items():
        wanted.setdefault(server[name], address)
    sockets = {(0, name): bind_or_replace(address) for name, address in wanted.items()}
    services = {name: address_of(sockets[0, server[name]]) for name in topology.services}
    return sockets, replace(topology, services=services)


def bind_lane(topology: Topology) -> tuple[Sockets, Topology]:
    """Sockets for one lane's gateway listeners, control, ingress and manager, and the topology with them."""
    lane = topology.lane
    wanted = {f"gateway_{name}": address for name, address in topology.gateways.items()}
    wanted |= {"control": topology.control, "manager": topology.manager}
    if topology.ingress is not None:
        wanted["ingress"] = topology.ingress
    if topology.egress is not None:
        wanted["egress"] = topology.egress
    sockets = {(lane, name): bind_or_replace(address) for name, address in wanted.items()}
    at = {name: address_of(listener) for (_, name), listener in sockets.items()}
    gateways = {name: at[f"gateway_{name}"] for name in topology.gateways}
    at_lane = replace(topology, gateways=gateways, control=at["control"], manager=at["manager"])
    return sockets, replace(at_lane, ingress=at.get("ingress"), egress=at.get("egress"))


def bind_toxiproxy(address: Address = Address(LOOPBACK, 0)) -> tuple[Sockets, str]:  # noqa: B008 - immutable
    """A socket for a Toxiproxy of the lab's own, and its URL."""
    listener = bind_or_replace(address)
    return {(0, "toxiproxy"): listener}, address_of(listener).url


def lanes_with(lanes: Sequence[Topology], services: Topology, toxiproxy: str, prefix: str) -> list[Topology]:
    """All the lanes with what they share."""
    return [
        replace(lane, services=services.services, toxiproxy=toxiproxy, proxy_prefix=prefix) for lane in lanes
    ]
