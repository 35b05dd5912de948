"""What a Toxiproxy server answers: the states that it describes, and its errors by type.

ToxiproxyError
|- Unreachable    no answer, or none in time
|- ServerError    5xx, or an answer that is none of Toxiproxy's
|- NotFound       404: no such proxy or toxic
|- Exists         409: the name is taken
`- Rejected       any other 4xx, and names that do not fit in a path
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

WILDCARDS = frozenset({"", "0.0.0.0", "::"})  # compared, never bound


class ToxiproxyError(Exception):
    """Any failure at the Toxiproxy server; ``str`` says what to do."""


class Unreachable(ToxiproxyError):
    """The server does not answer, or not in time."""


class ServerError(ToxiproxyError):
    """The server failed (5xx), or what answers is no Toxiproxy."""


class NotFound(ToxiproxyError):
    """The server knows no such proxy or toxic."""


class Exists(ToxiproxyError):
    """A proxy or toxic of that name exists."""


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
    """The field; raises ``ServerError`` where there is none."""
    try:
        return fields[name]
    except (KeyError, TypeError) as error:
        raise ServerError(
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


def same_listen(wanted: str, actual: str, *, any_port: bool = False) -> bool:
    """Whether the server's ``host:port`` is what was asked for (a port 0 asks for any).

    The server resolves host names and writes wildcards as ``[::]``; of a name only the port is compared.
    """
    wanted_host, _, wanted_port = wanted.rpartition(":")
    actual_host, _, actual_port = actual.rpartition(":")
    same_port = any_port or wanted_port in ("0", actual_port)
    return same_port and _same_host(wanted_host.strip("[]"), actual_host.strip("[]"))


def _same_host(wanted: str, actual: str) -> bool:
    if wanted in WILDCARDS or actual in WILDCARDS:
        return wanted in WILDCARDS and actual in WILDCARDS
    try:
        return ipaddress.ip_address(wanted) == ipaddress.ip_address(actual)
    except ValueError:
        return True
