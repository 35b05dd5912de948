"""The addresses of a lab's parts.

Without Compose everything is on loopback. The launcher writes the addresses into a file
(``WIREFAULT_TOPOLOGY``), since it replaces ports in use. In Compose each part has a host name, set by
environment variables.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from msgspec import convert
from msgspec.json import decode, encode

from wirefault.core.files import write_whole
from wirefault.core.processes import TOPOLOGY_VARIABLE
from wirefault.core.sockets import (
    CONTROL_PORT,
    EGRESS_PORT,
    INGRESS_PORT,
    LOOPBACK,
    MANAGER_PORT,
    MODEL_PORT,
    TOXIPROXY_PORT,
    Address,
)
from wirefault.wiring.links import SCRIPTED, Link, Links, lab_links
from wirefault.wiring.wiring import Wiring, lab_wiring, load_wiring

_FIRST_PORT = 5000
_PROXY_ABOVE, _GATEWAY_ABOVE = 1000, 2000
_SERVICE, _MODEL_SERVICE = "{service}", "model"


def default_ports(links: Links) -> dict[str, int]:
    """Return the default ports of the lab's parts, by name.

    A link's port is its service's; its proxy and gateway are 1000 and 2000 above. A link without a port in
    the wiring gets the first free one from 5000 on.
    """
    ports = {link.name: link.port for link in links}
    free = (port for port in count(_FIRST_PORT) if port not in ports.values())
    ports = {name: port or next(free) for name, port in ports.items()}
    ports |= {"ingress": INGRESS_PORT, "egress": EGRESS_PORT} if links.grows else {}
    return {**ports, "manager": MANAGER_PORT, "control": CONTROL_PORT, "toxiproxy": TOXIPROXY_PORT}


@dataclass(frozen=True)
class Topology:
    """The links of one lane of one lab and the addresses of their parts, by link name."""

    lab_id: str
    lane: int
    services: Mapping[str, Address]
    """Only of links whose upstream is a server of the lab, and the scripted model for found links."""
    proxies: Mapping[str, Address]
    """As the subject dials them."""
    gateways: Mapping[str, Address]
    """As Toxiproxy dials them."""
    manager: Address
    control: Address
    toxiproxy: str
    links: Links = field(default_factory=lab_links)
    proxy_prefix: str = ""
    """Precedes each proxy's name on a Toxiproxy server shared with other labs."""
    wiring: Mapping[str, Any] = field(default_factory=dict)
    """The result of ``Wiring.dump``."""
    ingress: Address | None = None
    """Where the ingress accepts intercepted connections; None without interception."""
    egress: Address | None = None
    """Where the gateway connects the ingress to hosts outside the links."""
    proxy_listen: Mapping[str, Address] = field(default_factory=dict)
    proxy_hosts: tuple[str, str] = (LOOPBACK, LOOPBACK)
    """Where a proxy added later is dialled, and where it listens."""

    def proxy_name(self, link_name: str) -> str:
        """Toxiproxy's name for the proxy of that link in this lane."""
        return self.proxy_prefix + self.links[link_name].proxy_name(self.lane)

    def listen_address(self, link_name: str) -> Address:
        """Return where Toxiproxy listens for that link (the agent may dial another address)."""
        return self.proxy_listen.get(link_name, self.proxies[link_name])

    @property
    def scripted(self) -> Address:
        """Return where the scripted model listens. Raises ``KeyError`` in a lab without one."""
        names = [link.name for link in self.links if link.upstream == SCRIPTED]
        return self.services[names[0] if names else SCRIPTED]

    def with_wiring(self, wiring: Wiring, model_host: str = LOOPBACK) -> Topology:
        """Return the same lab with the wiring's other keys; the scripted model is on that host."""
        services = dict(self.services)
        if wiring.intercept is not None and wiring.intercept.models == "scripted":
            services.setdefault(SCRIPTED, Address(model_host, MODEL_PORT))
        return replace(self, wiring=wiring.dump(), services=services)

    def with_proxies(self, proxies: Mapping[str, Address]) -> Topology:
        """Return the same lab with the proxies at Toxiproxy's addresses."""
        return replace(self, proxies=dict(proxies), proxy_listen={})

    def dump(self, path: Path) -> None:
        """Write the topology as JSON, atomically."""
        write_whole(path, encode(self, enc_hook=list))  # the links

    @classmethod
    def load(cls, path: Path) -> Topology:
        read = decode(
            path.read_bytes(), type=cls, dec_hook=lambda _, links: Links(convert(links, list[Link]))
        )
        return replace(read, links=Links(read.links, grows=read.ingress is not None))


def topology_file(folder: Path, lab_id: str, lane: int) -> Path:
    """Return the file that describes that lane, in the launcher's private folder."""
    return folder / (lab_id + (f"-{lane}" if lane else "") + ".json")


def draw_lab_id() -> str:
    return "lab-" + secrets.token_hex(3)


def default_topology(
    lab_id: str, lane: int = 0, ports: Mapping[str, int] | None = None, links: Links | None = None
) -> Topology:
    """Return everything on loopback, on the usual ports or others by the names of ``default_ports``.

    ``links`` default to the lab's. Lane k has its own proxies and gateways, 100 k ports above.
    """
    return _on_hosts({}, lab_id, lane, ports or {}, lab_links() if links is None else links)


def listening_addresses(topology: Topology) -> Iterator[tuple[str, Address]]:
    """Return the lab's listeners, in words, with their addresses."""
    for name in topology.links.names:
        if name in topology.services:
            yield f"the service of {name}", topology.services[name]
        yield f"the proxy of {name}", topology.listen_address(name)
        yield f"the gateway of {name}", topology.gateways[name]
    yield "the manager", topology.manager
    yield "the gateway's control", topology.control
    if topology.ingress is not None:
        yield "the ingress", topology.ingress
    if topology.egress is not None:
        yield "the gateway's egress", topology.egress
    yield "Toxiproxy", Address.parse(topology.toxiproxy.partition("://")[2])


def own_addresses(topology: Topology) -> list[Address]:
    """Return the lab's servers that are no way to an upstream: a subject may not use them."""
    toxiproxy = Address.parse(topology.toxiproxy.partition("://")[2])
    parts = [topology.manager, topology.control, toxiproxy, topology.ingress, topology.egress]
    # the MCP shim connects its servers to the gateway straight, and so return the calls of functions
    gateways = [
        topology.gateways[link.name] for link in topology.links if not (link.is_stdio or link.is_in_process)
    ]
    return [*(part for part in parts if part is not None), *gateways]


def topology_from(environ: Mapping[str, str]) -> Topology:
    """Return this process's topology.

    ``WIREFAULT_TOPOLOGY`` names the launcher's file. Without it: the links of the file ``WIRING``, else the
    lab's, on their ports and on the hosts in ``SERVICES_HOST`` (``{service}`` in it is replaced by the
    service's name), ``PROXY_HOST``, ``GATEWAY_HOST``, ``CONTROL_HOST``, ``MANAGER_HOST``, ``TOXIPROXY_URL``
    and ``PROXY_LISTEN_HOST``, each loopback by default.
    """
    path = environ.get(TOPOLOGY_VARIABLE)
    if path:
        return Topology.load(Path(path))
    file = environ.get("WIRING")
    wiring = load_wiring(Path(file)) if file else lab_wiring()
    topology = _on_hosts(environ, environ.get("LAB_ID") or draw_lab_id(), 0, {}, wiring.links)
    return topology.with_wiring(wiring, _model_host(environ))


def _on_hosts(
    environ: Mapping[str, str], lab_id: str, lane: int, configured_ports: Mapping[str, int], links: Links
) -> Topology:
    ports = {**default_ports(links), **configured_ports}

    def host(variable: str) -> str:
        return environ.get(variable) or LOOPBACK

    services, proxies, gateways = host("SERVICES_HOST"), host("PROXY_HOST"), host("GATEWAY_HOST")
    listen = environ.get("PROXY_LISTEN_HOST")
    proxy_ports = {name: ports[name] + _PROXY_ABOVE + 100 * lane for name in links.names}
    return Topology(
        lab_id=lab_id,
        lane=lane,
        services={
            link.name: _service_address(link, services, ports[link.name]) for link in links if link.is_of_lab
        },
        proxies={name: Address(proxies, port) for name, port in proxy_ports.items()},
        gateways={name: Address(gateways, ports[name] + _GATEWAY_ABOVE + 100 * lane) for name in links.names},
        manager=Address(host("MANAGER_HOST"), ports["manager"] + lane),
        control=Address(host("CONTROL_HOST"), ports["control"] + lane),
        toxiproxy=environ.get("TOXIPROXY_URL") or f"http://{LOOPBACK}:{ports['toxiproxy']}",
        links=links,
        ingress=Address(host("INGRESS_HOST"), ports["ingress"] + lane) if links.grows else None,
        egress=Address(host("CONTROL_HOST"), ports["egress"] + lane) if links.grows else None,
        proxy_listen={name: Address(listen, port) for name, port in proxy_ports.items()} if listen else {},
        proxy_hosts=(proxies, listen or proxies),
    )


def _service_address(link: Link, hosts: str, port: int) -> Address:
    """In containers one server is the scripted model for every link to one."""
    if link.upstream == SCRIPTED and _SERVICE in hosts:
        return Address(hosts.replace(_SERVICE, _MODEL_SERVICE), MODEL_PORT)
    return Address(hosts.replace(_SERVICE, link.service), port)


def _model_host(environ: Mapping[str, str]) -> str:
    return (environ.get("SERVICES_HOST") or LOOPBACK).replace(_SERVICE, _MODEL_SERVICE)
