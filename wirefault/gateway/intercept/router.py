"""The router: connects each intercepted connection to its link's proxy or past the lab, or refuses it."""

from __future__ import annotations

import asyncio
import errno
import socket
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Literal

from wirefault.core.sockets import Address, is_loopback, plain_host
from wirefault.gateway.closed_networks import NETWORK_CLOSED
from wirefault.gateway.intercept.arrival import (
    Arrival,
    ClientProtocol,
    RequestKind,
    server_name,
    speaks_only_http2,
)
from wirefault.gateway.intercept.egress import EgressError, dial, dial_through
from wirefault.gateway.intercept.hosts_file import HostsFile
from wirefault.gateway.intercept.link_routes import LinkRoutes, NoLink, TooManyLinks
from wirefault.gateway.intercept.pipes import PipeServer
from wirefault.gateway.intercept.policy import LinkRoute, Policy, Ruling, Treatment
from wirefault.gateway.intercept.splice import TLS_RECORD, readable
from wirefault.history.events import ONLY_HTTP2
from wirefault.settings.settings import SettingsError
from wirefault.wiring.links import FUNCTIONS_HOST, FUNCTIONS_PORT, MAX_FOUND_LINKS, RETURN_PORT

_OWN_PROXY = "it is a proxy of the agent (CONNECT), which hides the servers behind it: unset that proxy"
_LEFT_POLL_S = 0.05
# so many hosts get a link without a trial connection
_TRUSTED_LINKS = 16


@dataclass(frozen=True)
class Route:
    """A dialled connection for a client; ``why`` as in ``ConnectionEnded``."""

    server: socket.socket
    link: str = ""
    why: str = ""
    # it should have had a link, but no more could be made
    unlinked: bool = False
    # its client speaks nothing else
    only_http2: bool = False
    # it carries no request of the subject
    unrecorded: bool = False

    @property
    def tunnelled(self) -> bool:
        return not self.link


HowRefused = Literal["refused", "unaccepted", "unresolved"]


class Refused(Exception):
    """The connection was not dialled, or got no response.

    The message and ``status`` are for the client; ``link``, ``why`` and ``lab_failed`` as in
    ``ConnectionEnded``, as is ``how``; the client of an ``unaccepted`` one has left.
    """

    def __init__(
        self,
        status: int,
        message: str,
        link: str = "",
        why: str = "",
        *,
        lab_failed: bool = False,
        how: HowRefused = "refused",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.link = link
        self.why = why
        self.lab_failed = lab_failed
        self.how = how


class Router:
    """Routes the connections of one lane. ``egress`` returns the address of the way out, if there is one."""

    def __init__(
        self,
        routes: LinkRoutes,
        policy: Policy,
        egress: Callable[[], Address | None],
        hosts: HostsFile | None = None,
    ) -> None:
        self._hosts = hosts or HostsFile()
        self._link_routes = routes
        self._policy = policy
        self._egress = egress

    async def dial_pipe(self, server: PipeServer, port: int) -> socket.socket:
        """Connect the shim of an MCP server to its link. Raises ``OSError`` if that is impossible."""
        try:
            address = await self._link_routes.pipe_address(server, port)
        except (TooManyLinks, NoLink, sqlite3.Error, SettingsError) as error:
            raise OSError(str(error)) from None
        return await dial(socket.socket(), (address.host, address.port))

    async def route(self, arrival: Arrival) -> Route:
        """Find the destination and dial it.

        May read the client's first bytes, and may replace the arrival's host with the one that TLS names.
        Raises ``Refused``, and ``OSError`` if the client disconnects.
        """
        return await self._past_link(arrival, await self._route(arrival))

    async def _route(self, arrival: Arrival) -> Route:
        arrival.host = plain_host(arrival.host)
        arrival.addresses = self._hosts.loopback_of(arrival.host)
        for host in (arrival.host, *arrival.addresses):
            if self._link_routes.is_ingress(host, arrival.port):
                raise Refused(
                    403, "the ingress cannot be a destination", why="it would have looped back to the lab"
                )
            if self._link_routes.is_of_lab(host, arrival.port):
                raise Refused(403, "the subject may not call the lab's own servers", why=NETWORK_CLOSED)
        if arrival.host == FUNCTIONS_HOST:
            return await self._to_functions(arrival)
        if is_loopback(arrival.host):
            await self._take_name(arrival)
        if self._find_route(arrival) is None and _is_bare_address(arrival):
            protocol = await self._read_protocol(arrival)
            if isinstance(protocol, Route):
                return protocol
            arrival.host = server_name(arrival.early) or arrival.host
        tunnel = await self._ruled_out(arrival)
        if tunnel is not None:
            return tunnel
        route = self._find_route(arrival)
        return (
            await self._dial(route, arrival) if route is not None else await self._route_to_new_host(arrival)
        )

    async def _take_name(self, arrival: Arrival) -> None:
        """Replace an address of this machine by the name that the client means.

        The name counts if the client's TLS names it, or the first request's Host and the hosts file. Raises
        ``OSError`` if the client disconnects.
        """
        if arrival.request_kind in (RequestKind.REQUEST, RequestKind.TUNNEL):
            return  # a proxy's client sends the name
        name = plain_host(await arrival.read_name())
        is_named = arrival.early[:1] == TLS_RECORD or self._hosts.leads(name, arrival.host)
        if name and not is_loopback(name) and is_named:
            arrival.addresses, arrival.host = (arrival.host,), name

    async def _ruled_out(self, arrival: Arrival) -> Route | None:
        """Return a tunnel for a host that is to pass, None for one with a link. Raises ``Refused``."""
        ruling = self._rule(arrival)
        if ruling.treatment is Treatment.REFUSE:
            raise Refused(403, ruling.why, why=ruling.why)
        return await self._tunnel(arrival, ruling.why) if ruling.treatment is Treatment.PASS else None

    def _rule(self, arrival: Arrival) -> Ruling:
        return self._policy.rule(arrival.host, arrival.port, arrival.addresses)

    async def _past_link(self, arrival: Arrival, route: Route) -> Route:
        """Return a tunnel instead of the link's route for a client that speaks only HTTP/2.

        Reads the client's first bytes, which show this; a silent client keeps its route. A link that leads to
        another server than the client meant keeps it, too. Raises ``Refused``, and ``OSError``.
        """
        if route.tunnelled or arrival.request_kind is RequestKind.REQUEST:
            return route
        if not arrival.early:
            try:
                await arrival.accept()
                if not arrival.silent:
                    await arrival.read_protocol()
            except OSError:  # the client disconnected
                route.server.close()
                raise
        if not speaks_only_http2(arrival.early) or not self._link_routes.leads_there(route.link, arrival):
            return route
        route.server.close()
        return replace(await self._tunnel(arrival, ONLY_HTTP2), only_http2=True)

    def _find_route(self, arrival: Arrival) -> LinkRoute | None:
        for host in (arrival.host, *arrival.addresses):
            if (route := self._link_routes.wired(host, arrival.port)) is not None:
                return route
        return self._link_routes.known(arrival.host, arrival.port)

    async def _dial(self, route: LinkRoute, arrival: Arrival) -> Route:
        """Dial the link's proxy until it accepts, or the client leaves, as under the toxic ``unaccepted``."""
        dialling = asyncio.ensure_future(dial(socket.socket(), (route.proxy.host, route.proxy.port)))
        try:
            while not (await asyncio.wait({dialling}, timeout=_LEFT_POLL_S))[0]:
                if arrival.has_left:
                    message = f"{route.link} did not accept the connection"
                    raise Refused(502, message, route.link, how="unaccepted")
            return Route(await dialling, route.link)
        except OSError as error:  # the toxic ``down``, or the kernel's own limit for connecting
            message = f"{route.link} cannot be reached: {error.strerror}"
            how: HowRefused = "unaccepted" if error.errno == errno.ETIMEDOUT else "refused"
            raise Refused(502, message, route.link, how=how) from None
        finally:
            dialling.cancel()

    async def _tunnel(self, arrival: Arrival, why: str) -> Route:
        egress = self._egress()
        if egress is None:
            raise Refused(502, "this lab has no egress", why="this lab has no egress")
        try:
            host = arrival.addresses[0] if arrival.addresses else arrival.host
            return Route(await dial_through(egress, Address(host, arrival.port)), why=why)
        except EgressError as error:
            raise Refused(502, str(error), why=str(error)) from None

    async def _route_to_new_host(self, arrival: Arrival) -> Route:
        scheme = _expected_scheme(arrival)
        if not scheme:
            protocol = await self._read_protocol(arrival)
            if isinstance(protocol, Route):
                return protocol
            if protocol is ClientProtocol.OTHER:
                return await self._tunnel(arrival, "it speaks neither HTTP nor TLS")
            if protocol is ClientProtocol.CONNECT:
                return await self._tunnel(arrival, _OWN_PROXY)
            scheme = "https" if protocol is ClientProtocol.TLS else "http"
            name = server_name(arrival.early)
            if name and is_loopback(arrival.host):  # a certificate names the host, not its address
                arrival.addresses, arrival.host = (arrival.host,), name
                tunnel = await self._ruled_out(arrival)
                if tunnel is not None:
                    return tunnel
        try:
            if await self._link_routes.open_count() >= _TRUSTED_LINKS:
                await self._try_host(arrival)
            route = await self._link_routes.find(arrival.host, arrival.port, scheme)
        except TooManyLinks:
            tunnel = await self._tunnel(arrival, f"{MAX_FOUND_LINKS} other hosts have links already")
            return replace(tunnel, unlinked=True)
        except (NoLink, sqlite3.Error, SettingsError) as error:
            raise Refused(502, str(error), why=str(error), lab_failed=True) from None
        return await self._dial(route, arrival)

    async def _to_functions(self, arrival: Arrival) -> Route:
        """Return the route of a function's call, or the straight one for its return. Raises ``Refused``."""
        try:
            wired = self._link_routes.wired(arrival.host, arrival.port)
            route = wired or await self._link_routes.find(arrival.host, FUNCTIONS_PORT, "http")
            if arrival.port != RETURN_PORT:
                return await self._dial(route, arrival)
            gateway = await self._link_routes.gateway(route.link)
            server = await dial(socket.socket(), (gateway.host, gateway.port))
        except (TooManyLinks, NoLink, sqlite3.Error, SettingsError, OSError) as error:
            raise Refused(502, str(error), why=str(error), lab_failed=True) from None
        return Route(server, unrecorded=True)

    async def _try_host(self, arrival: Arrival) -> None:
        """Raise ``Refused`` for a host that cannot be dialled: invented ones must not use up all links."""
        (await self._tunnel(arrival, "")).server.close()

    async def _read_protocol(self, arrival: Arrival) -> ClientProtocol | Route:
        """Return the client's protocol, or a tunnel if its server speaks first."""
        await arrival.accept()
        while True:
            kind = ClientProtocol.UNDECIDED if arrival.silent else await arrival.read_protocol()
            if kind is not ClientProtocol.UNDECIDED:
                return kind
            if arrival.early or arrival.at_eof:
                return ClientProtocol.OTHER
            tunnel = await self._server_first(arrival)
            if tunnel is not None:
                return tunnel
            arrival.silent = False

    async def _server_first(self, arrival: Arrival) -> Route | None:
        """Return a tunnel if the server speaks first, None if the client does.

        A silent client either waits for its server's greeting, as in mail and SSH, or has opened the
        connection before it needs it. Only the server can show which.
        """
        try:
            if self._rule(arrival).treatment is Treatment.REFUSE:
                raise EgressError
            tunnel = await self._tunnel(arrival, "its server speaks first, which neither HTTP nor TLS does")
        except (Refused, EgressError):
            await readable(arrival.client)
            return None
        by_client, by_server = (asyncio.ensure_future(readable(s)) for s in (arrival.client, tunnel.server))
        await asyncio.wait((by_client, by_server), return_when=asyncio.FIRST_COMPLETED)
        server_was_first = not by_client.done()
        for waiting in (by_client, by_server):
            waiting.cancel()
        await asyncio.wait((by_client, by_server))
        if server_was_first:
            return tunnel
        tunnel.server.close()
        return None


def _is_bare_address(arrival: Arrival) -> bool:
    """Whether only an IP address elsewhere is known, so that SNI may give the host's name."""
    if arrival.request_kind is RequestKind.REQUEST:  # already read: the client waits for its reply
        return False
    try:
        return not is_loopback(arrival.host) and bool(ip_address(arrival.host))
    except ValueError:
        return False


def _expected_scheme(arrival: Arrival) -> str:
    """Return the scheme where it is known before the tunnel is opened, else "".

    Only then can a tunnel to a server that is down be refused with a status.
    """
    if arrival.request_kind is RequestKind.REQUEST:
        return "http"
    if arrival.request_kind is RequestKind.TUNNEL and not arrival.early:
        return {443: "https", 80: "http"}.get(arrival.port, "")
    return ""
