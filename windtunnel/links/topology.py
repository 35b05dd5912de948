"""Where everything of a lab listens.

Without Compose all is on loopback. The launcher writes the addresses into a file (``WINDTUNNEL_TOPOLOGY``),
since it replaces a port that is taken. In Compose each party has a host name, set by environment variables.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from windtunnel.core.lifeline import TOPOLOGY_VARIABLE
from windtunnel.core.sockets import LOOPBACK, Address
from windtunnel.links.catalog import CONTROL_PORT, LINKS, MANAGER_PORT, TOXIPROXY_PORT, link

DEFAULT_PORTS: Mapping[str, int] = {
    **{row.name: row.port for row in LINKS},
    "manager": MANAGER_PORT,
    "control": CONTROL_PORT,
    "toxiproxy": TOXIPROXY_PORT,
}


@dataclass(frozen=True)
class Topology:
    """The addresses of one lane of one lab, by link name, each as it is dialled by the party before it.

    ``proxy_prefix`` is put before each proxy's name on a Toxiproxy server that other labs use too.
    """

    lab_id: str
    lane: int
    services: Mapping[str, Address]
    proxies: Mapping[str, Address]
    gateways: Mapping[str, Address]
    manager: Address
    control: Address
    toxiproxy: str
    proxy_prefix: str = ""
    proxy_listen: Mapping[str, Address] = field(default_factory=dict)

    def proxy_name(self, link_name: str) -> str:
        """Toxiproxy's name for the proxy of that link in this lane."""
        return self.proxy_prefix + link(link_name).proxy_name(self.lane)

    def listen_address(self, link_name: str) -> Address:
        """Where Toxiproxy shall listen for that link (which may differ from what the agent dials)."""
        return self.proxy_listen.get(link_name, self.proxies[link_name])

    def with_proxies(self, proxies: Mapping[str, Address]) -> Topology:
        """The same lab with the proxies where Toxiproxy has them."""
        return replace(self, proxies=dict(proxies), proxy_listen={})

    def dump(self, path: Path) -> None:
        """Writes the topology as JSON, in one step: a reader sees the old file or the new one."""
        data = asdict(self)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(data, indent=1), encoding="utf-8")
        temporary.replace(path)

    @classmethod
    def load(cls, path: Path) -> Topology:
        data = json.loads(path.read_text(encoding="utf-8"))
        for key in ("services", "proxies", "gateways", "proxy_listen"):
            data[key] = {name: Address(**address) for name, address in data[key].items()}
        for key in ("manager", "control"):
            data[key] = Address(**data[key])
        return cls(**data)


def draw_lab_id() -> str:
    return "lab-" + secrets.token_hex(3)


def default_topology(lab_id: str, lane: int = 0, ports: Mapping[str, int] = DEFAULT_PORTS) -> Topology:
    """Everything on loopback, on the catalog's ports, or others by the names of ``DEFAULT_PORTS``.

    A link's port is that of its service; its proxy and its gateway have those 1000 and 2000 above.
    """
    return _on_hosts({}, lab_id, lane, ports)


def listening_addresses(topology: Topology) -> Iterator[tuple[str, Address]]:
    """What listens in a lab, in words, and where."""
    for row in LINKS:
        yield f"the service of {row.name}", topology.services[row.name]
        yield f"the proxy of {row.name}", topology.listen_address(row.name)
        yield f"the gateway of {row.name}", topology.gateways[row.name]
    yield "the manager", topology.manager
    yield "the gateway's control", topology.control
    yield "Toxiproxy", Address.parse(topology.toxiproxy.partition("://")[2])


def topology_from(environ: Mapping[str, str]) -> Topology:
    """This process's topology.

    ``WINDTUNNEL_TOPOLOGY`` names the launcher's file. Without it: the catalog's ports, on the hosts of
    ``SERVICES_HOST`` (``{service}`` in it stands for the service's name), ``PROXY_HOST``, ``GATEWAY_HOST``,
    ``CONTROL_HOST``, ``MANAGER_HOST``, ``TOXIPROXY_URL`` and ``PROXY_LISTEN_HOST``, all loopback unless set.
    """
    path = environ.get(TOPOLOGY_VARIABLE)
    if path:
        return Topology.load(Path(path))
    return _on_hosts(environ, environ.get("LAB_ID") or draw_lab_id())


def _on_hosts(
    environ: Mapping[str, str], lab_id: str, lane: int = 0, ports: Mapping[str, int] = DEFAULT_PORTS
) -> Topology:
    ports = {**DEFAULT_PORTS, **ports}
    links = [replace(row, port=ports[row.name]) for row in LINKS]

    def host(variable: str) -> str:
        return environ.get(variable) or LOOPBACK

    services, proxies, gateways = host("SERVICES_HOST"), host("PROXY_HOST"), host("GATEWAY_HOST")
    listen = environ.get("PROXY_LISTEN_HOST")
    return Topology(
        lab_id=lab_id,
        lane=lane,
        services={row.name: Address(services.replace("{service}", row.service), row.port) for row in links},
        proxies={row.name: Address(proxies, row.proxy_port) for row in links},
        gateways={row.name: Address(gateways, row.gateway_port) for row in links},
        manager=Address(host("MANAGER_HOST"), ports["manager"]),
        control=Address(host("CONTROL_HOST"), ports["control"]),
        toxiproxy=environ.get("TOXIPROXY_URL") or f"http://{LOOPBACK}:{ports['toxiproxy']}",
        proxy_listen={row.name: Address(listen, row.proxy_port) for row in links} if listen else {},
    )
