"""Where a link's requests go: the upstreams, and the four rewrites of a request's header block.

Host, the model link's path prefix, the world and translator headers towards lab tools, and lab headers
stripped towards anything that is not the lab's. All else stays byte for byte.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from wirefault.cassettes.cassettes import CassettePlayer, CassetteRecorder
from wirefault.core.identity import Identity, foreign_members, parse_baggage
from wirefault.core.sockets import Address
from wirefault.gateway.closed_networks import ALL_OPEN, ClosedNetworks
from wirefault.gateway.http1.heads import RequestHead
from wirefault.settings.settings import GROQ_BASE_URL, Settings

# The tries of an attempt mostly send the same baggage: their first call of its kind, first try.
_KEPT = 1024


@lru_cache(_KEPT)
def identity_in(baggage: bytes) -> Identity | None:
    """Whose request it is, as its sender says; None if it does not say."""
    return parse_baggage(baggage.decode("latin-1"))


@lru_cache(_KEPT)
def foreign_baggage(baggage: bytes) -> bytes:
    """What of it another's server gets: all that is not the lab's."""
    return foreign_members(baggage.decode("latin-1")).encode("latin-1")


LAB_BASE_PATH = "/openai/v1"
_CLIENT_PREFIXES = (LAB_BASE_PATH, "/v1")


@dataclass(frozen=True)
class Endpoint:
    """An upstream. ``base_path`` replaces the client's on the model link; None leaves the path alone.

    ``is_lab``: a server of the lab, which may see the lab's headers. ``tls`` None is plain HTTP. ``recorder``
    keeps what it answers; a ``player`` answers in its place. An ``opener`` makes an upstream that is no
    TCP server, from the events that it is to report and this endpoint. ``closed``: where the host must not
    turn out to be.
    """

    host: str
    port: int
    authority: bytes
    base_path: str | None = None
    is_lab: bool = True
    tls: ssl.SSLContext | None = None
    recorder: CassetteRecorder | None = None
    player: CassettePlayer | None = None
    opener: Callable[[Any, Endpoint], Any] | None = None
    closed: ClosedNetworks = ALL_OPEN


def lab_endpoint(address: Address, base_path: str | None = None) -> Endpoint:
    return Endpoint(address.host, address.port, str(address).encode(), base_path)


def url_endpoint(url: str, context: Callable[[], ssl.SSLContext]) -> Endpoint:
    """The endpoint of somebody else's server; ``context`` is called for an https URL only."""
    parts = urlsplit(url)
    secure = parts.scheme == "https"
    return Endpoint(
        host=parts.hostname or "",
        port=parts.port or (443 if secure else 80),
        authority=parts.netloc.rpartition("@")[2].encode(),
        base_path=parts.path.rstrip("/"),
        is_lab=False,
        tls=context() if secure else None,
    )


def model_endpoint(settings: Settings, context: Callable[[], ssl.SSLContext]) -> Endpoint | None:
    """Who answers in the scripted model's place in a run with these settings, None if nobody does.

    Raises ``SettingsError`` for bad cassettes.
    """
    if settings.model == "scripted":
        return None
    if settings.model == "replay":
        return Endpoint("", 0, b"cassettes", "", player=CassettePlayer(Path(settings.cassettes)))
    real = url_endpoint(GROQ_BASE_URL if settings.asks_groq else settings.model_base_url, context)
    recorder = CassetteRecorder(Path(settings.cassettes)) if settings.model == "record" else None
    return replace(real, recorder=recorder)


def rewrite(head: RequestHead, endpoint: Endpoint, lab_headers: bytes) -> bytes:
    """The header block that the upstream gets. ``lab_headers``: whole lines, which replace the client's."""
    lines = head.lines
    if head.host_at:
        name = lines[head.host_at].partition(b":")[0]
        lines[head.host_at] = name + b": " + endpoint.authority
    if endpoint.base_path is not None:
        lines[0] = _with_base_path(lines[0], endpoint.base_path)
    if not endpoint.is_lab or (lab_headers and head.lab_at):
        lines = _without_lab_headers(head, endpoint.is_lab, lab_headers)
    return b"\r\n".join(lines) + b"\r\n" + lab_headers + b"\r\n"


def _with_base_path(line: bytes, base_path: str) -> bytes:
    method, target, version = line.split(b" ")
    for prefix in _CLIENT_PREFIXES:
        rest = target.removeprefix(prefix.encode())
        if rest != target and rest[:1] in (b"", b"/", b"?"):
            return b" ".join((method, base_path.encode() + rest, version))
    return line


def _without_lab_headers(head: RequestHead, is_lab: bool, replaced: bytes) -> list[bytes]:
    if is_lab:
        names = {line.partition(b":")[0].lower() for line in replaced.split(b"\r\n")}
        drop = {at for at in head.lab_at if head.lines[at].partition(b":")[0].lower() in names}
        return [line for at, line in enumerate(head.lines) if at not in drop]
    if not head.lab_at and not head.baggage_at:
        return head.lines
    lines: list[bytes | None] = list(head.lines)
    of_lab = identity_in(head.baggage) is not None
    for at in head.lab_at + head.trace_at if of_lab else head.lab_at:
        lines[at] = None
    for at in head.baggage_at:
        name, _, value = head.lines[at].partition(b":")
        rest = foreign_baggage(value)
        lines[at] = name + b": " + rest if rest else None
    return [line for line in lines if line is not None]
