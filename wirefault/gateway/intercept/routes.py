"""Where the front dials for a host: the Toxiproxy proxy of a link, which is made if it is a new host."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from wirefault.core.sockets import Address, is_loopback
from wirefault.gateway.intercept.lane_state import LaneState
from wirefault.gateway.intercept.policy import names
from wirefault.state.found_links import FoundLink
from wirefault.wiring.found import MOST_FOUND, found_link, is_model_host
from wirefault.wiring.intercept_spec import InterceptSpec
from wirefault.wiring.link import Link
from wirefault.wiring.topology import Topology
from wirefault.wiring.wiring import wiring_of

_OPENED_WITHIN_S = 15.0
_POLL_S = 0.003


class TooManyLinks(Exception):
    """A further host makes no link any more."""


class NoLink(Exception):
    """The link could not be opened; the message says why."""


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
        if _same(host, port, proxy) or _leads(topology, link, host, port):
            return LinkRoute(link.name, proxy)
    return None


def _leads(topology: Topology, link: Link, host: str, port: int) -> bool:
    if link.hosts:
        return names(link.hosts, host, port)
    return _same(host, port, topology.services[link.name] if link.is_of_lab else server_of(link.upstream))


class Routes:
    """The routes of one lane, whose topology is asked for anew each time. Hosts are given in lower case.

    ``scripted``: the scripted model answers for the models' providers.
    """

    def __init__(
        self,
        topology: Callable[[], Topology],
        state: LaneState,
        *,
        scripted: bool = False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._topology = topology
        self._state = state
        self._scripted = scripted
        self._sleep = sleep
        self._found: dict[tuple[str, int], asyncio.Task[LinkRoute]] = {}
        self._taking_stock = asyncio.Lock()

    def wired(self, host: str, port: int) -> LinkRoute | None:
        return wired_route(self._topology(), host, port)

    def stays_inside(self, host: str, port: int) -> bool:
        """Whether the wiring says what answers there, so that it may be called offline, too."""
        return self.wired(host, port) is not None or (self._scripted and is_model_host(host))

    def is_of_lab(self, host: str, port: int) -> bool:
        """Whether a part of the lab listens there that is no link's."""
        lab = self._topology()
        own = [lab.manager, lab.control, *lab.gateways.values(), server_of(lab.toxiproxy)]
        return any(_same(host, port, address) for address in own)

    def is_front(self, host: str, port: int) -> bool:
        """Whether a connection to there would come back, and again."""
        lab = self._topology()
        return any(_same(host, port, address) for address in (lab.front, lab.egress) if address is not None)

    def known(self, host: str, port: int) -> LinkRoute | None:
        """The route to a host that was found before and can be dialled at once."""
        found = self._found.get((host, port))
        is_open = found is not None and found.done() and found.exception() is None
        return found.result() if found is not None and is_open else None

    async def find(self, host: str, port: int, scheme: str) -> LinkRoute:
        """Has the link made, if it is not there yet, and waits until it can be dialled.

        Raises ``TooManyLinks``, ``NoLink``, ``sqlite3.Error``.
        """
        key = (host, port)
        if key not in self._found:
            self._found[key] = asyncio.ensure_future(self._make(host, port, scheme))
        try:
            return await asyncio.shield(self._found[key])
        except BaseException:
            if key in self._found and self._found[key].done():
                del self._found[key]  # the next connection tries again
            raise

    async def _make(self, host: str, port: int, scheme: str) -> LinkRoute:
        async with self._taking_stock:
            rows = await self._state.found()
            taken = [*self._topology().links.names, *(row.link.name for row in rows)]
            link = found_link(host, port, scheme, taken, scripted=self._scripted)
            server = (link.upstream, link.hosts)
            there = next((row.link for row in rows if (row.link.upstream, row.link.hosts) == server), None)
            if there is None and len(rows) >= MOST_FOUND:
                raise TooManyLinks
            link = there or link
            await self._state.want(link)
        return await self._opened(link.name)

    async def _opened(self, name: str) -> LinkRoute:
        """Polls until the manager has opened the link. Raises ``NoLink``."""
        try:
            async with asyncio.timeout(_OPENED_WITHIN_S):
                while True:
                    row = await self._row(name)
                    if row.status == "open":
                        return LinkRoute(name, Address.parse(row.proxy))
                    if row.status == "failed":
                        raise NoLink(f"the link {name} could not be opened: {row.reason}")
                    await self._sleep(_POLL_S)
        except TimeoutError:
            raise NoLink(f"the link {name} was not opened within {_OPENED_WITHIN_S:g} s") from None

    async def _row(self, name: str) -> FoundLink:
        return next(row for row in await self._state.found() if row.link.name == name)


def server_of(upstream: str) -> Address:
    """The host and port of an upstream's URL."""
    parts = urlsplit(upstream)
    return Address(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))


def _same(host: str, port: int, address: Address) -> bool:
    """Whether that is the address; this machine goes by several names."""
    hosts = (host, address.host)
    return port == address.port and (host == address.host or all(map(is_loopback, hosts)))
