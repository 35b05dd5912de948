"""Addresses and listening sockets, bound here or inherited from the launcher."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

LOOPBACK = "127.0.0.1"
LOOPBACK_ADDRESSES = ("127.0.0.1", "::1")
# names of one server on this machine: other addresses of 127.0.0.0/8 may be other servers
LOOPBACK_HOSTS = frozenset({"localhost", *LOOPBACK_ADDRESSES})
SOCKETS_VARIABLE = "WIREFAULT_SOCKETS"
# ports of the lab's parts that are not links
MANAGER_PORT = 8000
CONTROL_PORT = 7070
INGRESS_PORT = 7100
MODEL_PORT = 5007
EGRESS_PORT = 7090
TOXIPROXY_PORT = 8474
UI_PORT = 8090

# an IPv4 address as C libraries accept it: one to four parts, also in hexadecimal or octal
_NUMBERS = re.compile(r"[0-9a-fx]+(\.[0-9a-fx]+){0,3}")
_HOST_PORT = re.compile(r"(?P<host>\[[0-9a-fA-F:.]+\]|[^\s:/@\[\]]+):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True)
class Address:
    """A host and a TCP port; ``str`` gives ``host:port``, ``url`` gives ``http://host:port``."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self}"

    @classmethod
    def parse(cls, text: str) -> Address:
        """Parse ``host:port``. Raises ``ValueError`` for anything else."""
        match = _HOST_PORT.fullmatch(text.strip())
        if not match or int(match["port"]) > 65535:
            raise ValueError(f"{text!r} is not host:port")
        return cls(match["host"].strip("[]"), int(match["port"]))


def is_loopback(host: str) -> bool:
    """Return whether the host is this machine, by its usual names or addresses; no name is resolved."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_this_machine(host: str) -> bool:
    """Return whether a server of that name is taken for one on this machine: loopback, or a reserved name.

    RFC 6761 reserves ``.localhost`` and ``.test``. ``.local`` names belong to other machines.
    """
    name = plain_host(host)
    return is_loopback(name) or name.endswith((".localhost", ".test"))


def names_loopback(host: str) -> bool:
    """Return whether a Host header, with or without a port, names this machine."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return is_loopback(plain_host(name))


def plain_host(host: str) -> str:
    """Return the host in lower case; an address in any spelling becomes its usual form.

    ``127.1``, ``2130706433``, ``::ffff:127.0.0.1`` and ``0.0.0.0`` all lead to ``127.0.0.1``.
    """
    host = host.strip("[]").lower().rstrip(".")
    try:
        ip = ip_address(host)
    except ValueError:
        if not _NUMBERS.fullmatch(host):
            return host
        try:
            ip = ip_address(socket.inet_aton(host))
        except OSError:
            return host
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped:
        ip = ip.ipv4_mapped
    if ip.is_unspecified:
        return "127.0.0.1" if ip.version == 4 else "::1"
    return str(ip)


def listen(name: str, address: Address, environ: Mapping[str, str] | None = None) -> socket.socket:
    """Return a listening TCP socket for the server called ``name``.

    The launcher binds its children's sockets and passes them on, so that two labs starting at once cannot
    race for a port. ``WIREFAULT_SOCKETS`` maps names to file descriptors. Without an entry the address is
    bound here (``LISTEN_HOST`` overrides the host, for containers). Raises ``OSError``.
    """
    environ = os.environ if environ is None else environ
    handed_over = json.loads(environ.get(SOCKETS_VARIABLE) or "{}")
    if name in handed_over:
        listener = socket.socket(fileno=int(handed_over[name]))
    else:
        listener = bind(Address(environ.get("LISTEN_HOST") or address.host, address.port))
    listener.setblocking(False)
    return listener


def bind(address: Address) -> socket.socket:
    """Bind and listen on the address; port 0 takes any free port. Raises ``OSError``."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, address.port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRNOTAVAIL:
            raise OSError(error.errno, _not_an_address(address.host)) from None
        raise
    return listener


def _not_an_address(host: str) -> str:
    if host == LOOPBACK:
        return f"this machine has no IPv4 loopback, which a lab needs: ip addr add {host}/8 dev lo"
    return f"{host} is not an address of this machine"


def bind_or_replace(address: Address) -> socket.socket:
    """Bind like ``bind``, but use a free port if the port is taken."""
    try:
        return bind(address)
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            raise
        return bind(Address(address.host, 0))


def bound_address(listener: socket.socket) -> Address:
    """Return the address on which the socket listens."""
    host, port = listener.getsockname()[:2]
    return Address(str(host), int(port))
