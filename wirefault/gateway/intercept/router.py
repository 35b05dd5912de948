"""Leads a connection: to its link's proxy, past the lab, or nowhere."""

from __future__ import annotations

import asyncio
import socket
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from ipaddress import ip_address

from wirefault.core.sockets import Address, is_loopback
from wirefault.gateway.intercept.arrival import Arrival, Asked, Spoken, server_name
from wirefault.gateway.intercept.egress import NoWayOut, dial, dial_through
from wirefault.gateway.intercept.lane_state import LaneState
from wirefault.gateway.intercept.policy import (
    LinkRoute,
    Policy,
    Treatment,
    is_address,
    server_of,
    wired_route,
)
from wirefault.gateway.intercept.splice import readable
from wirefault.settings.settings import SettingsError
from wirefault.state.found_links import FoundLink
from wirefault.wiring.links import MOST_FOUND, found_link, is_model_host
from wirefault.wiring.topology import Topology

_OPENED_WITHIN_S = 15.0
_POLL_S = 0.003


class TooManyLinks(Exception):
    """A further host makes no link any more."""


class NoLink(Exception):
    """The link could not be opened; the message says why."""


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
        return any(is_address(host, port, address) for address in own)

    def is_ingress(self, host: str, port: int) -> bool:
        """Whether a connection to there would come back, and again."""
        lab = self._topology()
        return any(
            is_address(host, port, address) for address in (lab.ingress, lab.egress) if address is not None
        )

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


@dataclass(frozen=True)
class Road:
    """A connection that was dialled for a client. ``why`` as ``ConnectionEnded`` has it."""

    server: socket.socket
    link: str = ""
    why: str = ""

    @property
    def tunnelled(self) -> bool:
        return not self.link


class Refused(Exception):
    """Nothing was dialled, or nobody answered; the message is for the client, ``status`` its reply's.

    ``link``, ``why`` and ``lab_failed`` as ``ConnectionEnded`` has them.
    """

    def __init__(
        self, status: int, message: str, link: str = "", why: str = "", *, lab_failed: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        self.link = link
        self.why = why
        self.lab_failed = lab_failed


class Guide:
    """For the connections of one lane. ``egress`` gives the address of the way out."""

    def __init__(self, routes: Routes, policy: Policy, egress: Callable[[], Address | None]) -> None:
        self._routes = routes
        self._policy = policy
        self._egress = egress

    async def lead(self, arrival: Arrival) -> Road:
        """Finds where it goes, and dials. May read what the client says first, and names its host better.

        Raises ``Refused``, and ``OSError`` if the client leaves meanwhile.
        """
        arrival.host = arrival.host.lower().rstrip(".")
        if self._routes.is_ingress(arrival.host, arrival.port):
            raise Refused(403, "the ingress is no destination", why="it would have come back to the lab")
        if self._routes.is_of_lab(arrival.host, arrival.port):
            return await self._tunnel(arrival, "")
        if self._route(arrival) is None and _is_bare_address(arrival):
            heard = await self._listen(arrival)
            if isinstance(heard, Road):
                return heard
            arrival.host = server_name(arrival.early) or arrival.host
        ruling = self._policy.rule(arrival.host, arrival.port)
        if ruling.treatment is Treatment.REFUSE:
            raise Refused(403, ruling.why, why=ruling.why)
        if ruling.treatment is Treatment.PASS:
            return await self._tunnel(arrival, ruling.why)
        route = self._route(arrival)
        return await self._dial(route) if route is not None else await self._lead_to_new(arrival)

    def _route(self, arrival: Arrival) -> LinkRoute | None:
        target = (arrival.host, arrival.port)
        return self._routes.wired(*target) or self._routes.known(*target)

    async def _dial(self, route: LinkRoute) -> Road:
        try:
            proxy = (route.proxy.host, route.proxy.port)
            return Road(await dial(socket.socket(), proxy), route.link)
        except OSError as error:  # the toxic ``down``
            raise Refused(502, f"{route.link} cannot be reached: {error.strerror}", route.link) from None

    async def _tunnel(self, arrival: Arrival, why: str) -> Road:
        egress = self._egress()
        if egress is None:
            raise Refused(502, "this lab has no way out", why="this lab has no way out")
        try:
            return Road(await dial_through(egress, Address(arrival.host, arrival.port)), why=why)
        except NoWayOut as error:
            raise Refused(502, str(error), why=str(error)) from None

    async def _lead_to_new(self, arrival: Arrival) -> Road:
        scheme = _scheme_by_place(arrival)
        if not scheme:
            heard = await self._listen(arrival)
            if isinstance(heard, Road):
                return heard
            if heard is Spoken.OTHER:
                return await self._tunnel(arrival, "it speaks neither HTTP nor TLS")
            scheme = "https" if heard is Spoken.TLS else "http"
            if is_loopback(arrival.host):  # a server's certificate is for its name, not for its address
                arrival.host = server_name(arrival.early) or arrival.host
        try:
            route = await self._routes.find(arrival.host, arrival.port, scheme)
        except TooManyLinks:
            return await self._tunnel(arrival, f"{MOST_FOUND} other hosts have links already")
        except (NoLink, sqlite3.Error, SettingsError) as error:
            raise Refused(502, str(error), why=str(error), lab_failed=True) from None
        return await self._dial(route)

    async def _listen(self, arrival: Arrival) -> Spoken | Road:
        """What the client speaks; a tunnel, if its server has spoken before it."""
        await arrival.accept()
        while (kind := await arrival.what_is_spoken()) is Spoken.UNDECIDED:
            if arrival.early or arrival.said_all:
                return Spoken.OTHER
            road = await self._first_to_speak(arrival)
            if road is not None:
                return road
        return kind

    async def _first_to_speak(self, arrival: Arrival) -> Road | None:
        """The tunnel over which the server speaks, None if the client does so first.

        A client that says nothing waits for its server's greeting, as with mail or SSH, or has opened the
        connection before it needs it: only the server can tell.
        """
        try:
            if self._policy.rule(arrival.host, arrival.port).treatment is Treatment.REFUSE:
                raise NoWayOut
            road = await self._tunnel(arrival, "its server speaks first, as none of HTTP or TLS does")
        except (Refused, NoWayOut):
            await readable(arrival.client)
            return None
        by_client, by_server = (asyncio.ensure_future(readable(s)) for s in (arrival.client, road.server))
        await asyncio.wait((by_client, by_server), return_when=asyncio.FIRST_COMPLETED)
        server_was_first = not by_client.done()
        for waiting in (by_client, by_server):
            waiting.cancel()
        await asyncio.wait((by_client, by_server))
        if server_was_first:
            return road
        road.server.close()
        return None


def _is_bare_address(arrival: Arrival) -> bool:
    """Whether it names no host but an address elsewhere, so that its TLS may name the host better."""
    if arrival.asked is Asked.REQUEST:  # which has been read: the client waits for its reply
        return False
    try:
        return not is_loopback(arrival.host) and bool(ip_address(arrival.host))
    except ValueError:
        return False


def _scheme_by_place(arrival: Arrival) -> str:
    """What is spoken, as far as it can be told before a tunnel is said to be open; empty if it cannot.

    Only then a tunnel to a server that is down can be refused as one.
    """
    if arrival.asked is Asked.REQUEST:
        return "http"
    if arrival.asked is Asked.TUNNEL and not arrival.early:
        return {443: "https", 80: "http"}.get(arrival.port, "")
    return ""
