"""Routes to the links of a lane, and links for the hosts and pipes that are found at run time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from wirefault.core.sockets import LOOPBACK_HOSTS, Address
from wirefault.gateway.intercept.arrival import Arrival
from wirefault.gateway.intercept.lane_state import LaneState
from wirefault.gateway.intercept.pipes import CLIENT_PORT, PipeServer, pipe_link, wired_pipe_link
from wirefault.gateway.intercept.policy import LinkRoute, is_address, server_of, wired_route
from wirefault.state.tables import FoundLink
from wirefault.wiring.links import MAX_FOUND_LINKS, Link, found_link, is_model_host
from wirefault.wiring.topology import Topology, own_addresses

_OPENED_WITHIN_S = 15.0
_POLL_S = 0.003


class TooManyLinks(Exception):
    """The limit on links for new hosts is reached."""


class NoLink(Exception):
    """The link could not be opened; the message says why."""


class LinkRoutes:
    """Routes to the links of one lane, including links for new hosts. Hosts are in lower case.

    ``topology`` is read again on each call. ``scripted``: the scripted model answers for model providers.
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
        self._tasks: dict[tuple[str, int], asyncio.Task[LinkRoute]] = {}
        self._making = asyncio.Lock()

    def wired(self, host: str, port: int) -> LinkRoute | None:
        return wired_route(self._topology(), host, port)

    def wired_name(self, host: str, port: int) -> str:
        """Return the name of the wiring's link to there; empty if there is none."""
        route = self.wired(host, port)
        return "" if route is None else route.link

    def stays_inside(self, host: str, port: int) -> bool:
        """Whether the wiring names the server there, so that it may be called offline."""
        return self.wired(host, port) is not None or (self._scripted and is_model_host(host))

    def leads_there(self, link: str, arrival: Arrival) -> bool:
        """Whether the link leads to the server that the client meant."""
        wired = next((one for one in self._topology().links if one.name == link), None)
        if wired is None:
            return True  # it was found for that host
        return not wired.is_of_lab and is_address(arrival.host, arrival.port, server_of(wired.upstream))

    def is_of_lab(self, host: str, port: int) -> bool:
        """Whether one of the lab's own servers listens there."""
        return any(is_address(host, port, address) for address in own_addresses(self._topology()))

    def is_ingress(self, host: str, port: int) -> bool:
        """Whether a connection to there would loop back to the ingress."""
        lab = self._topology()
        return any(
            is_address(host, port, address) for address in (lab.ingress, lab.egress) if address is not None
        )

    def known(self, host: str, port: int) -> LinkRoute | None:
        """Return the route to a host that already has an open link."""
        task = self._tasks.get(_server(host, port))
        return task.result() if task and task.done() and task.exception() is None else None

    async def open_count(self) -> int:
        """Return how many hosts have links already. Raises ``sqlite3.Error``."""
        return len(await self._state.link_rows())

    async def find(self, host: str, port: int, scheme: str) -> LinkRoute:
        """Return the route to a host, making its link first if it has none.

        Raises ``TooManyLinks``, ``NoLink``, ``sqlite3.Error``.
        """
        key = _server(host, port)
        if key not in self._tasks:
            self._tasks[key] = asyncio.ensure_future(self._make(host, port, scheme))
        try:
            return await asyncio.shield(self._tasks[key])
        except BaseException:
            if key in self._tasks and self._tasks[key].done():
                del self._tasks[key]  # the next connection tries again
            raise

    async def pipe_address(self, server: PipeServer, port: int) -> Address:
        """Return the proxy of the server's link, or its gateway for the server's own lines.

        Makes the link first if it has none. Raises ``TooManyLinks``, ``NoLink``, ``sqlite3.Error``.
        """
        topology = self._topology()
        wired = wired_pipe_link(topology.links, server)
        if wired is not None:
            return (topology.proxies if port == CLIENT_PORT else topology.gateways)[wired.name]
        async with self._making:
            rows = await self._state.link_rows()
            known = [row.link for row in rows] + await self._state.lab_links()
            # the same name in all lanes
            link = next((each for each in known if each.hosts == (server.host,)), None)
            if link is None or link.name not in [row.link.name for row in rows]:
                if len(rows) >= MAX_FOUND_LINKS:
                    raise TooManyLinks
                link = link or pipe_link(server, [*topology.links.names, *(each.name for each in known)])
                await self._state.request_link(link)
        await self._opened(link.name)
        row = await self._row(link.name)
        return Address.parse(row.proxy if port == CLIENT_PORT else row.gateway)

    async def _make(self, host: str, port: int, scheme: str) -> LinkRoute:
        async with self._making:
            rows = await self._state.link_rows()
            taken = [*self._topology().links.names, *(row.link.name for row in rows)]
            link = found_link(host, port, scheme, taken, scripted=self._scripted)
            existing = next((row.link for row in rows if _is_same(row.link, link)), None)
            if existing is None and len(rows) >= MAX_FOUND_LINKS:
                raise TooManyLinks
            link = existing or link
            await self._state.request_link(link)
        return await self._opened(link.name)

    async def _opened(self, name: str) -> LinkRoute:
        """Poll until the manager has opened the link. Raises ``NoLink``."""
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

    async def gateway(self, name: str) -> Address:
        """Return where the gateway listens for that link. Raises ``sqlite3.Error``."""
        wired = self._topology().gateways.get(name)
        return wired or Address.parse((await self._row(name)).gateway)

    async def _row(self, name: str) -> FoundLink:
        return next(row for row in await self._state.link_rows() if row.link.name == name)


def _server(host: str, port: int) -> tuple[str, int]:
    """Return one key for all usual names of this machine's loopback, so that they share a link."""
    return ("localhost" if host in LOOPBACK_HOSTS else host), port


def _is_same(link: Link, other: Link) -> bool:
    """Whether both links lead to one server, in the same scheme."""
    if link.is_stdio or other.is_stdio:
        return False
    if any(each.is_of_lab or each.is_in_process for each in (link, other)):
        return (link.upstream, link.hosts) == (other.upstream, other.hosts)
    schemes = [urlsplit(each.upstream).scheme for each in (link, other)]
    servers = [server_of(each.upstream) for each in (link, other)]
    return schemes[0] == schemes[1] and len({_server(each.host, each.port) for each in servers}) == 1
