"""The networks of the lab's own containers, which the gateway refuses to dial for a subject.

A subject in Compose can connect to the proxies and the ingress only. The gateway, which dials for it, is on
every network of the lab: without this check, a subject could reach the tools and the lab's control through
it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path

from wirefault.core.sockets import Address, is_loopback, plain_host

NETWORK_CLOSED = "it is the lab's own"
_ROUTES = Path("/proc/net/route")
# this container's own servers, and link-local addresses
_EVERYWHERE = ("127.0.0.0/8", "0.0.0.0/8", "::/127", "fe80::/10")


@dataclass(frozen=True)
class ClosedNetworks:
    """Networks, and servers on this machine, that are not dialled for a subject."""

    networks: Sequence[IPv4Network | IPv6Network] = ()
    # of the lab's own servers on loopback
    ports: frozenset[int] = frozenset()

    def with_servers(self, servers: Iterable[Address]) -> ClosedNetworks:
        """Return these networks and the lab's own servers on loopback."""
        return replace(self, ports=frozenset(server.port for server in servers if is_loopback(server.host)))

    def closes(self, address: str, port: int) -> bool:
        """Whether that IP address and port may not be dialled."""
        ip = ip_address(plain_host(address.partition("%")[0]))
        return (ip.is_loopback and port in self.ports) or any(ip in network for network in self.networks)


ALL_OPEN = ClosedNetworks()


def closed_networks(control_host: str, routes: Path = _ROUTES) -> ClosedNetworks:
    """Return this machine's networks if the lab's control is on one of them; none if it is on loopback.

    Natively the subject is on this machine, too, and reaches everything that the gateway reaches, except the
    lab's own servers. Raises ``OSError`` if the system's routes are unreadable.
    """
    if is_loopback(control_host):
        return ALL_OPEN
    lines = [line.split() for line in routes.read_text(encoding="ascii").splitlines()[1:]]
    connected = [
        IPv4Network((_ip(destination), str(IPv4Address(_ip(mask)))))
        for _, destination, gateway, _, _, _, _, mask, *_ in lines
        if int(gateway, 16) == 0 and int(mask, 16) != 0
    ]
    return ClosedNetworks([*map(ip_network, _EVERYWHERE), *connected])


def _ip(word: str) -> bytes:
    """Return the four bytes of an address that the kernel writes as a number."""
    return int(word, 16).to_bytes(4, sys.byteorder)
