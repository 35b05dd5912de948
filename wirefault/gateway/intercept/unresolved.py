"""Names that do not resolve at the moment, by the toxic ``unresolved`` on their links."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import ip_address

from wirefault.core.sockets import is_loopback
from wirefault.gateway.intercept.lane_state import ArmedAttempt, LaneState
from wirefault.gateway.intercept.policy import server_of
from wirefault.settings.settings import SettingsError
from wirefault.toxiproxy.answers import ProxyState, ToxiproxyError
from wirefault.toxiproxy.client import ToxiproxyClient
from wirefault.toxiproxy.toxics import UNRESOLVED
from wirefault.wiring.links import Link
from wirefault.wiring.topology import Topology


@dataclass(frozen=True)
class UnresolvedName:
    """A name that must fail, with the link that has the toxic, its server's port, and the DNS code."""

    host: str
    link: str
    port: int
    code: int


class UnresolvedNames:
    """Reads the toxics in force from Toxiproxy, as the manager has set and verified them."""

    def __init__(self, topology: Callable[[], Topology], state: LaneState) -> None:
        self._topology = topology
        self._state = state

    async def find(self, host: str, attempt: ArmedAttempt | None) -> UnresolvedName | None:
        """Return the name if it must not resolve now. Toxiproxy is only asked if the attempt plans that."""
        if attempt is None or not attempt.plans_unresolved or not _is_name(host):
            return None
        try:
            links = [link for link in await self._links() if _leads_to(link, host)]
            states = await asyncio.to_thread(self._proxies) if links else {}
        except (sqlite3.Error, SettingsError, OSError, ToxiproxyError):  # the manager reports it
            return None
        topology = self._topology()
        for link in links:
            proxy = states.get(topology.proxy_prefix + link.proxy_name(topology.lane))
            for toxic in proxy.toxics if proxy else ():
                if toxic.kind == UNRESOLVED:
                    port = server_of(link.upstream).port
                    return UnresolvedName(host, link.name, port, toxic.attributes["code"])
        return None

    async def _links(self) -> list[Link]:
        return [*self._topology().links, *(row.link for row in await self._state.link_rows())]

    def _proxies(self) -> dict[str, ProxyState]:
        with ToxiproxyClient(self._topology().toxiproxy) as client:
            return client.proxies()


def _is_name(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return not is_loopback(host)
    return False


def _leads_to(link: Link, host: str) -> bool:
    patterns = [pattern.rpartition(":")[0] or pattern for pattern in link.hosts]
    return any(fnmatchcase(host, pattern.lower()) for pattern in patterns or [server_of(link.upstream).host])
