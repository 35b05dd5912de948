"""Upstreams of links, and the four rewrites of a request's header block.

They are Host, the model link's path prefix, the world and translator headers added towards lab tools, and the
lab's headers removed towards foreign servers. All other bytes stay.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from wirefault.core.identity import Sender, foreign_members, parse_sender
from wirefault.core.sockets import Address
from wirefault.dialects.http import Reply, Request
from wirefault.gateway.cassettes import CassettePlayer, CassetteRecorder
from wirefault.gateway.closed_networks import ALL_OPEN, ClosedNetworks
from wirefault.gateway.http1.heads import RequestHead
from wirefault.settings.settings import GROQ_BASE_URL, Settings

# Requests of a subject that only passes the headers on have the same baggage.
_CACHE_SIZE = 1024


@lru_cache(_CACHE_SIZE)
def sender_in(baggage: bytes) -> Sender | None:
    """Return what the baggage says about its sender; None if it names no attempt."""
    return parse_sender(baggage.decode("latin-1"))


@lru_cache(_CACHE_SIZE)
def foreign_baggage(baggage: bytes) -> bytes:
    """Return the members that foreign servers get: all but the lab's."""
    return foreign_members(baggage.decode("latin-1")).encode("latin-1")


def trusting_context(*protocols: str) -> ssl.SSLContext:
    """Return the TLS settings of a client that trusts the system's roots, or ``SSL_CERT_FILE``.

    ``protocols``: what it offers by ALPN.
    """
    context = ssl.create_default_context()
    # Python 3.13 refuses older authorities that clients in other languages trust
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if protocols:
        context.set_alpn_protocols(protocols)
    return context


LAB_BASE_PATH = "/openai/v1"
_CLIENT_PREFIXES = (LAB_BASE_PATH, "/v1")


class Recorder(Protocol):
    """Records an upstream's replies."""

    failure: str
    """Why a reply was not recorded."""
    keeps_errors: bool
    """Whether it records redirects and errors, too."""

    def ask(self, request: Request) -> Callable[[Reply], None]:
        """Note a request; return a function that takes its reply, and may raise ``OSError``."""


class Player(Protocol):
    """Replies in an upstream's place."""

    not_recorded: str
    """Why a request has no reply."""

    def next_reply(self, request: Request) -> Reply | None:
        """Return the reply; None without one."""


@dataclass(frozen=True)
class Endpoint:
    """An upstream."""

    host: str
    port: int
    authority: bytes
    base_path: str | None = None
    """Replaces the client's path prefix on the model link; None leaves the path alone."""
    is_lab: bool = True
    """A server of the lab, which may see the lab's headers."""
    tls: ssl.SSLContext | None = None
    """None is plain HTTP."""
    recorder: Recorder | None = None
    """Records its answers."""
    player: Player | None = None
    """Answers instead of it."""
    opener: Callable[[Any, Endpoint], Any] | None = None
    """Makes an ``Upstream`` without TCP, from the receiver of its events and this endpoint."""
    other_hosts: tuple[str, ...] = ()
    """Dialled in turn where ``host`` refuses: other addresses of the same server."""
    keeps_host: bool = False
    """Whether its clients' Host stays: it may be any name of the server."""
    closed: ClosedNetworks = ALL_OPEN
    """Networks that the host must not resolve to."""


def lab_endpoint(address: Address, base_path: str | None = None) -> Endpoint:
    return Endpoint(address.host, address.port, str(address).encode(), base_path)


def url_endpoint(url: str, context: Callable[[], ssl.SSLContext]) -> Endpoint:
    """Return the endpoint of a foreign server; ``context`` is called for an https URL only."""
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
    """Return what replaces the scripted model under these settings; None if it answers itself.

    Raises ``SettingsError`` for bad cassettes.
    """
    if settings.model == "scripted":
        return None
    if settings.model == "replay":
        return Endpoint("", 0, b"cassettes", "", player=CassettePlayer(Path(settings.cassettes)))
    real = url_endpoint(GROQ_BASE_URL if settings.asks_groq else settings.model_base_url, context)
    recorder = CassetteRecorder(Path(settings.cassettes)) if settings.model == "record" else None
    return replace(real, recorder=recorder)


# An extension of WebSocket, such as compression, would hide the messages.
_EXTENSIONS = b"sec-websocket-extensions"


def rewrite(head: RequestHead, endpoint: Endpoint, lab_headers: bytes) -> bytes:
    """Return the header block for the upstream. ``lab_headers``: whole lines that replace the client's."""
    lines = head.lines
    if head.host_at and not endpoint.keeps_host:
        name = lines[head.host_at].partition(b":")[0]
        lines[head.host_at] = name + b": " + endpoint.authority
    if endpoint.base_path is not None:
        lines[0] = _with_base_path(lines[0], endpoint.base_path)
    if not endpoint.is_lab or (lab_headers and head.lab_at):
        lines = _without_lab_headers(head, endpoint.is_lab, lab_headers)
    if head.upgrade:
        lines = [line for line in lines if line.partition(b":")[0].lower() != _EXTENSIONS]
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
    is_lab_identity = sender_in(head.baggage) is not None
    for at in head.lab_at + head.trace_at if is_lab_identity else head.lab_at:
        lines[at] = None
    for at in head.baggage_at:
        name, _, value = head.lines[at].partition(b":")
        rest = foreign_baggage(value)
        lines[at] = name + b": " + rest if rest else None
    return [line for line in lines if line is not None]
