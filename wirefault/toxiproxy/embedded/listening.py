"""Listen addresses as the real server reads them, with its words for one that it refuses."""

from __future__ import annotations

import asyncio
import os
import re
import socket

from wirefault.toxiproxy.embedded.errors import ApiError

_BACKLOG = 1024
_WILDCARDS = ("", "0.0.0.0", "::")


def split_host_port(address: str) -> tuple[str, int]:
    """``host:port`` or ``[host]:port``; raises ``ValueError`` in the server's words."""
    host, colon, port = address.rpartition(":")
    if not colon:
        raise _unfit(address, "missing port in address")
    rest = address
    if address.startswith("["):
        inside, closing, after = address[1:].partition("]")
        if not closing:
            raise _unfit(address, "missing ']' in address")
        if after != f":{port}":
            raise _unfit(
                address, f"{'too many colons' if after.startswith(':') else 'missing port'} in address"
            )
        host, rest = inside, inside + after
    elif ":" in host:
        raise _unfit(address, "too many colons in address")
    for bracket in "[]":
        if bracket in rest:
            raise _unfit(address, f"unexpected '{bracket}' in address")
    return host, _port(port)


def _port(text: str) -> int:
    if not text:
        return 0
    if re.fullmatch(r"[+-]?[0-9]*", text):
        number = int(text) if text.strip("+-") else 0
        if 0 <= number <= 65535:
            return number
        raise _unfit(text, "invalid port")
    try:
        return socket.getservbyname(text.lower(), "tcp")
    except (OSError, ValueError) as error:
        raise ValueError(f"lookup tcp/{text}: unknown port") from error


def _unfit(address: str, reason: str) -> ValueError:
    return ValueError(f"address {address}: {reason}")


def join_host_port(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def resolve_address(address: str) -> tuple[str, int]:
    """Host and port with the host's name resolved (IPv4 first); raises ``ValueError``."""
    host, port = split_host_port(address) if address else ("", 0)
    if not host:
        return host, port
    try:
        if _only_almost_an_address(host):
            raise socket.gaierror
        infos = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        raise ValueError(f"lookup {host}: no such host") from error
    infos.sort(key=lambda info: info[0] != socket.AF_INET)
    return str(infos[0][4][0]), port


def _only_almost_an_address(host: str) -> bool:
    """Whether the C library takes the text for an address though Go does not: 127.1, 010.0.0.1."""
    try:
        socket.inet_aton(host)
    except (OSError, UnicodeError):
        return False
    try:
        socket.inet_pton(socket.AF_INET, host)
    except OSError:
        return True
    return False


async def open_listener(address: str) -> socket.socket:
    """A listening socket; raises ``ApiError`` (500) as the real server does."""
    try:
        host, port = await resolve_address(address)
    except ValueError as error:
        raise ApiError(f"listen tcp: {error}", 500) from error
    try:
        return _bound(host, port)
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise ApiError(f"listen tcp {join_host_port(host, port)}: bind: {reason}", 500) from error


def _bound(host: str, port: int) -> socket.socket:
    if host in _WILDCARDS and socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)
