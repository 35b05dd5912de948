"""Listen addresses as the real server reads them, with its words for what is wrong with one."""

from __future__ import annotations

import asyncio
import os
import socket

from proxy_manager.embedded.errors import ApiError

BACKLOG = 1024
WILDCARDS = ("", "0.0.0.0", "::")


def split_host_port(address: str) -> tuple[str, int]:
    """``host:port`` or ``[host]:port``, the port a number; raises ``ValueError`` in the server's words."""
    host, colon, port = address.rpartition(":")
    if not colon:
        raise ValueError(f"address {address}: missing port in address")
    if ":" in host and not (host.startswith("[") and host.endswith("]")):
        raise ValueError(f"address {address}: too many colons in address")
    if not port.isdecimal():
        raise ValueError(f"lookup tcp/{port}: unknown port")
    if int(port) > 65535:
        raise ValueError(f"address {port}: invalid port")
    return host.removeprefix("[").removesuffix("]"), int(port)


def join_host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def resolve(address: str) -> tuple[str, int]:
    """Host and port with the host's name resolved (IPv4 first); raises ``ValueError``."""
    host, port = split_host_port(address) if address else ("", 0)
    if not host:
        return host, port
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise ValueError(f"lookup {host}: no such host") from error
    found.sort(key=lambda info: info[0] != socket.AF_INET)
    return str(found[0][4][0]), port


async def listener(address: str) -> socket.socket:
    """A listening socket; raises ``ApiError`` (500) as the real server does."""
    try:
        host, port = await resolve(address)
    except ValueError as error:
        raise ApiError(f"listen tcp: {error}", 500) from error
    try:
        return _bound(host, port)
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise ApiError(f"listen tcp {join_host_port(host, port)}: bind: {reason}", 500) from error


def _bound(host: str, port: int) -> socket.socket:
    if host in WILDCARDS and socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, backlog=BACKLOG, dualstack_ipv6=True)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)
