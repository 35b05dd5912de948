"""Which connections of a subject go through a link, which pass the lab untouched, which are refused. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from wirefault.core.sockets import Address, is_loopback, is_this_machine
from wirefault.wiring.links import Link, found_name
from wirefault.wiring.topology import Topology
from wirefault.wiring.wiring import InterceptSpec, dumped_wiring

# Hosts that frameworks and runtimes call in the background: traces, usage statistics, price lists,
# vocabularies, checks for updates (Deno, Bun, npm). A fault on one of them says nothing about an agent, and
# its replies belong to no task.
BACKGROUND_HOSTS = (
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
    *("dl.deno.land", "bun.sh", "bun.com", "registry.npmjs.???"),
)


class Treatment(Enum):
    """``LINK``: through a link of the lab. ``PASS``: tunnelled untouched. ``REFUSE``: not connected."""

    LINK = auto()
    PASS = auto()
    REFUSE = auto()


@dataclass(frozen=True)
class Ruling:
    """A treatment and its reason as a clause; empty where none is needed."""

    treatment: Treatment
    why: str = ""


_LINK = Ruling(Treatment.LINK)
_PASSED = Ruling(Treatment.PASS, "--pass names it")
_REFUSED = Ruling(Treatment.REFUSE, "--refuse names it")


@dataclass(frozen=True)
class Policy:
    """The wiring's rules for hosts. A pattern is ``host`` or ``host:port``, with ``*`` for any part, or the
    name of a link.
    """

    # all other hosts pass
    only: Sequence[str] = ()
    passed: Sequence[str] = ()
    refused: Sequence[str] = ()
    # only this machine and the upstreams of the wiring's links are dialled
    offline: bool = False
    # whether a link of the wiring leads to that host and port
    is_wired: Callable[[str, int], bool] = field(default=lambda host, port: False)
    # the name of that link; empty if there is none
    wired_name: Callable[[str, int], str] = field(default=lambda host, port: "")

    def rule(self, host: str, port: int, addresses: Sequence[str] = ()) -> Ruling:
        """Return the ruling for a host in lower case; ``addresses`` are this machine's that the hosts file
        gives it, and count as further names.
        """
        names = (host, *addresses)
        if self._names(self.refused, names, port):
            return _REFUSED
        wired = any(self.is_wired(name, port) for name in names)
        if self.offline and not wired and not any(map(is_this_machine, names)):
            return Ruling(Treatment.REFUSE, "only this machine and wired hosts are called (--offline)")
        if self._names(self.passed, names, port):
            return _PASSED
        if self._names(self.only, names, port):
            return _LINK
        if self.only:
            return Ruling(Treatment.PASS, "it is not among the hosts of --only")
        if not wired and matches_host(BACKGROUND_HOSTS, host, port):
            return Ruling(
                Treatment.PASS,
                "frameworks call it in the background; a link of the wiring would intercept it",
            )
        return _LINK

    def _names(self, patterns: Sequence[str], names: Sequence[str], port: int) -> bool:
        """Whether a pattern matches one of the names, or is the wired link's name."""
        if not patterns:
            return False
        if any(matches_host(patterns, name, port) for name in names):
            return True
        return any(self.wired_name(name, port) in patterns for name in names)


def matches_host(patterns: Sequence[str], host: str, port: int) -> bool:
    """Whether one of the patterns matches that host and port, or names the link that is found for them.

    All loopback names are equal.
    """
    return any(_matches(pattern.lower(), host, port) for pattern in patterns)


def _matches(pattern: str, host: str, port: int) -> bool:
    if pattern == found_name(host, port):
        return True
    wanted, colon, wanted_port = pattern.rpartition(":")
    if not colon or pattern.endswith("]"):
        wanted, wanted_port = pattern, "*"
    wanted = wanted.strip("[]")
    same_host = fnmatchcase(host, wanted) or (is_loopback(host) and is_loopback(wanted))
    return same_host and fnmatchcase(str(port), wanted_port)


@dataclass(frozen=True)
class LinkRoute:
    """A link's name and its proxy's address."""

    link: str
    proxy: Address


def intercept_of(topology: Topology) -> InterceptSpec:
    """Return the wiring's policy for intercepted connections."""
    return dumped_wiring(topology.wiring).intercept or InterceptSpec()


def wired_route(topology: Topology, host: str, port: int) -> LinkRoute | None:
    """Return the route of a wired link to that host, or of a link whose proxy the client dials itself."""
    for link in topology.links:
        proxy = topology.proxies[link.name]
        if is_address(host, port, proxy) or _leads_to(topology, link, host, port):
            return LinkRoute(link.name, proxy)
    return None


def _leads_to(topology: Topology, link: Link, host: str, port: int) -> bool:
    if link.hosts:
        return matches_host(link.hosts, host, port)
    return is_address(
        host, port, topology.services[link.name] if link.is_of_lab else server_of(link.upstream)
    )


def server_of(upstream: str) -> Address:
    """Return host and port of an upstream's URL."""
    parts = urlsplit(upstream)
    return Address(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))


def is_address(host: str, port: int, address: Address) -> bool:
    """Whether host and port are that address; all loopback names are equal."""
    hosts = (host, address.host)
    return port == address.port and (host == address.host or all(map(is_loopback, hosts)))
