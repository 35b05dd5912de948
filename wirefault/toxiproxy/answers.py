"""States and errors in the replies of a Toxiproxy server.

ToxiproxyError
|- Unreachable             no reply, or none in time
|- ToxiproxyServerError    5xx, or not a Toxiproxy reply
|- ToxiproxyNotFound       404: unknown proxy or toxic
|- Exists                  409: the name is in use
`- Rejected                any other 4xx, and names that are invalid in a path
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # only compared: nothing binds them


class ToxiproxyError(Exception):
    """Any failure at the Toxiproxy server; the message says what to do."""


class Unreachable(ToxiproxyError):
    """The server does not reply, or not in time."""


class ToxiproxyServerError(ToxiproxyError):
    """The server failed (5xx), or it is not Toxiproxy."""


class ToxiproxyNotFound(ToxiproxyError):
    """Unknown proxy or toxic."""


class Exists(ToxiproxyError):
    """A proxy or toxic of that name already exists."""


class Rejected(ToxiproxyError):
    """The server, or this client before it, refused the request."""


@dataclass(frozen=True)
class ToxicState:
    """A toxic as the server stores it."""

    name: str
    kind: str
    stream: str
    toxicity: float
    attributes: Mapping[str, int]


@dataclass(frozen=True)
class ProxyState:
    """A proxy as the server stores it; ``listen`` has the real port."""

    name: str
    listen: str
    upstream: str
    enabled: bool
    toxics: tuple[ToxicState, ...] = ()


def field_of(fields: Mapping[str, Any], name: str) -> Any:
    """Return the field; raises ``ToxiproxyServerError`` if it is missing."""
    try:
        return fields[name]
    except (KeyError, TypeError) as error:
        raise ToxiproxyServerError(
            f"no {name!r} in the answer, this is not Toxiproxy 2; check TOXIPROXY_URL"
        ) from error


def proxy_state(fields: Mapping[str, Any]) -> ProxyState:
    return ProxyState(
        name=str(field_of(fields, "name")),
        listen=str(field_of(fields, "listen")),
        upstream=str(field_of(fields, "upstream")),
        enabled=bool(field_of(fields, "enabled")),
        toxics=tuple(toxic_state(toxic) for toxic in fields.get("toxics") or ()),
    )


def toxic_state(fields: Mapping[str, Any]) -> ToxicState:
    return ToxicState(
        name=str(field_of(fields, "name")),
        kind=str(field_of(fields, "type")),
        stream=str(field_of(fields, "stream")),
        toxicity=float(field_of(fields, "toxicity")),
        attributes=dict(field_of(fields, "attributes")),
    )


def same_listen(requested: str, actual: str, *, any_port: bool = False) -> bool:
    """Whether the server's ``host:port`` is the requested one; a requested port 0 matches any port.

    The server resolves host names, so only the port of a name is compared. It writes wildcards as ``[::]``.
    """
    requested_host, _, requested_port = requested.rpartition(":")
    actual_host, _, actual_port = actual.rpartition(":")
    same_port = any_port or requested_port in ("0", actual_port)
    return same_port and _same_host(requested_host.strip("[]"), actual_host.strip("[]"))


def _same_host(requested: str, actual: str) -> bool:
    if requested in _WILDCARDS or actual in _WILDCARDS:
        return requested in _WILDCARDS and actual in _WILDCARDS
    try:
        return ipaddress.ip_address(requested) == ipaddress.ip_address(actual)
    except ValueError:
        return True
