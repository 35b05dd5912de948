"""Where no connection of a subject is led, whatever host it names: the networks of the lab's own containers.

A subject in Compose can open a connection to the proxies and the ingress alone. The gateway, which dials for
it, is on every network of the lab: it would be the way to the tools, and to the control of the lab itself.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path

from wirefault.core.sockets import is_loopback

NETWORK_CLOSED = "it is the lab's own"
_ROUTES = Path("/proc/net/route")
# this container's own servers, and what is on its links by an address of no network
_EVERYWHERE = ("127.0.0.0/8", "0.0.0.0/8", "::/127", "fe80::/10")


@dataclass(frozen=True)
class ClosedNetworks:
    """``address in networks`` tells of an IP address, as a text, whether it is in one of them."""

    networks: Sequence[IPv4Network | IPv6Network] = ()

    def __contains__(self, address: object) -> bool:
        ip = ip_address(str(address).partition("%")[0])
        plain = (ip.ipv4_mapped or ip) if isinstance(ip, IPv6Address) else ip
        return any(plain in network for network in self.networks)


ALL_OPEN = ClosedNetworks()


def closed_networks(control_host: str, routes: Path = _ROUTES) -> ClosedNetworks:
    """Those that this machine is on, where the lab's control is on one of them; none where it is on loopback.

    Natively the subject is on this machine, too, and reaches by itself whatever the gateway reaches. Raises
    ``OSError`` where the system does not tell its routes.
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
    """Four bytes from the kernel's word, which it writes as a number."""
    return int(word, 16).to_bytes(4, sys.byteorder)
