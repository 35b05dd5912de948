"""Which of a subject's connections go through the lab, which past it, and which nowhere. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from wirefault.core.sockets import Address, is_loopback
from wirefault.wiring.links import Link
from wirefault.wiring.topology import Topology
from wirefault.wiring.wiring import InterceptSpec, wiring_of

# Hosts that frameworks call unasked: traces, usage figures, price lists, vocabularies. To strike one of them
# says nothing about an agent, and what it answers is no part of any task.
UNASKED_HOSTS = (
    *("api.smith.langchain.com", "*.api.smith.langchain.com", "cloud.langfuse.com", "*.cloud.langfuse.com"),
    *("app.posthog.com", "*.i.posthog.com", "*.ingest.sentry.io", "*.ingest.us.sentry.io"),
    *(
        "telemetry.crewai.com",
        "api.mixpanel.com",
        "api.segment.io",
        "api.agentops.ai",
        "app.phoenix.arize.com",
    ),
    *("logfire-api.pydantic.dev", "logfire-us.pydantic.dev", "logfire-eu.pydantic.dev", "*.scarf.sh"),
    *("raw.githubusercontent.com", "openaipublic.blob.core.windows.net"),
)


class Treatment(Enum):
    """``LINK``: through a link of the lab. ``PASS``: tunnelled untouched. ``REFUSE``: not connected."""

    LINK = auto()
    PASS = auto()
    REFUSE = auto()


@dataclass(frozen=True)
class Ruling:
    """What is done with a connection, and why, as a part of a sentence; empty where nothing needs saying."""

    treatment: Treatment
    why: str = ""


_LINK = Ruling(Treatment.LINK)


@dataclass(frozen=True)
class Policy:
    """What the wiring says of hosts. Each is ``host``, ``host:port``, or either with ``*`` for any part.

    ``only``: all others pass. ``offline``: nothing is dialled but this machine and what the wiring's links
    lead to. ``is_wired`` tells whether a link of the wiring leads to that host and port.
    """

    only: Sequence[str] = ()
    passed: Sequence[str] = ()
    refused: Sequence[str] = ()
    offline: bool = False
    is_wired: Callable[[str, int], bool] = field(default=lambda host, port: False)

    def rule(self, host: str, port: int) -> Ruling:
        """What is done with a connection to that host, given in lower case."""
        if names(self.refused, host, port):
            return Ruling(Treatment.REFUSE, "it is to be refused (--refuse)")
        wired = self.is_wired(host, port)
        if self.offline and not wired and not is_loopback(host):
            return Ruling(Treatment.REFUSE, "only this machine and wired hosts are called (--offline)")
        if names(self.passed, host, port):
            return Ruling(Treatment.PASS, "it is to pass (--pass)")
        if names(self.only, host, port):
            return _LINK
        if self.only:
            return Ruling(Treatment.PASS, "it is not among those to be struck (--only)")
        if not wired and names(UNASKED_HOSTS, host, port):
            return Ruling(Treatment.PASS, "frameworks call it unasked; a link of the wiring would strike it")
        return _LINK


def names(patterns: Sequence[str], host: str, port: int) -> bool:
    """Whether one of the patterns means that host and port."""
    return any(_means(pattern.lower(), host, port) for pattern in patterns)


def _means(pattern: str, host: str, port: int) -> bool:
    wanted, colon, wanted_port = pattern.rpartition(":")
    if not colon or pattern.endswith("]"):
        wanted, wanted_port = pattern, "*"
    return fnmatchcase(host, wanted.strip("[]")) and fnmatchcase(str(port), wanted_port)


@dataclass(frozen=True)
class LinkRoute:
    """A link by its name, and the address of its proxy."""

    link: str
    proxy: Address


def intercept_of(topology: Topology) -> InterceptSpec:
    """What the lab's wiring says of the connections of its subject."""
    wiring = wiring_of(topology.wiring) if topology.wiring else None
    return (wiring and wiring.intercept) or InterceptSpec()


def wired_route(topology: Topology, host: str, port: int) -> LinkRoute | None:
    """The route of a link that the wiring names, or of one whose proxy the client dials itself."""
    for link in topology.links:
        proxy = topology.proxies[link.name]
        if is_address(host, port, proxy) or _leads_to(topology, link, host, port):
            return LinkRoute(link.name, proxy)
    return None


def _leads_to(topology: Topology, link: Link, host: str, port: int) -> bool:
    if link.hosts:
        return names(link.hosts, host, port)
    return is_address(
        host, port, topology.services[link.name] if link.is_of_lab else server_of(link.upstream)
    )


def server_of(upstream: str) -> Address:
    """The host and port of an upstream's URL."""
    parts = urlsplit(upstream)
    return Address(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))


def is_address(host: str, port: int, address: Address) -> bool:
    """Whether that is the address; this machine goes by several names."""
    hosts = (host, address.host)
    return port == address.port and (host == address.host or all(map(is_loopback, hosts)))
