"""The proxies of a lane: set in Toxiproxy according to the plan, and read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from wirefault.core.sockets import Address
from wirefault.toxiproxy.answers import ProxyState, ToxicState, ToxiproxyError, same_listen
from wirefault.toxiproxy.client import ToxiproxyClient
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.toxiproxy.toxics import DOWN, UNRESOLVED
from wirefault.wiring.links import Link, Links
from wirefault.wiring.topology import Topology


class NotAsPlanned(ToxiproxyError):
    """The state that was read back differs from the plan."""


class LaneProxies:
    """The proxies of one lane on one server. Raises ``ToxiproxyError`` from every method.

    It changes only its own proxies, so several labs can share a server.
    """

    def __init__(self, client: ToxiproxyClient, topology: Topology) -> None:
        self._client = client
        self._topology = topology
        self._found: dict[str, Address] = {}
        self._names = {topology.proxy_name(link): link for link in topology.links.names}
        self._listening: dict[str, str] = {}

    @property
    def links(self) -> Links:
        """The lane's links, including found ones."""
        return self._topology.links

    def add(self, link: Link, gateway: Address) -> Address:
        """Create the proxy of a found link and return its address."""
        if link.name not in self._topology.links:
            topology = self._topology
            host, listen = topology.proxy_hosts
            self._topology = replace(
                topology,
                links=topology.links.adding([link]),
                proxies={**topology.proxies, link.name: Address(host, 0)},
            )
            self._found[link.name] = Address(listen, 0)
            self._names[self._topology.proxy_name(link.name)] = link.name
        self._topology = replace(self._topology, gateways={**self._topology.gateways, link.name: gateway})
        return self._ensure(self._topology.proxy_name(link.name), link.name)

    def ensure(self) -> dict[str, Address]:
        """Create the missing proxies and return each link's address.

        A port in use is replaced the first time. Later a proxy keeps its port, since callers know it. An
        address in the topology is never replaced.
        """
        return {link: self._ensure(name, link) for name, link in self._names.items()}

    def _ensure(self, name: str, link: str) -> Address:
        configured = self._topology.proxy_listen.get(link)
        known = str(configured) if configured else self._listening.get(link)
        listen = known or str(self._found.get(link) or self._topology.listen_address(link))
        upstream = str(self._topology.gateways[link])
        proxy = self._client.ensure_proxy(name, listen, upstream, replace_taken=known is None)
        self._listening[link] = known or proxy.listen
        return Address(self._topology.proxies[link].host, Address.parse(proxy.listen).port)

    def observe(self) -> dict[str, ProxyState]:
        """Return the lane's existing proxies by link, in their current state."""
        states = self._client.proxies()
        return {link: states[name] for name, link in self._names.items() if name in states}

    def apply(self, plan: Sequence[PlannedToxic]) -> list[dict[str, Any]]:
        """Set the plan's toxics, remove all others, and read them back. Raises ``NotAsPlanned``."""
        if self._topology.ingress is None and any(toxic.kind == UNRESOLVED for toxic in plan):
            raise ToxiproxyError(
                f"{UNRESOLVED} needs a tap (exec, or intercept in the wiring): by address the lab resolves no"
                " names"
            )
        observed = self.observe()
        if self.misplaced(observed):
            self.ensure()
            observed = self.observe()
        for link, proxy in observed.items():
            self._apply_to(proxy, [toxic for toxic in plan if toxic.link == link])
        read_back = self.observe()
        differing = self.differences(plan, read_back)
        if differing:
            raise NotAsPlanned(f"Toxiproxy differs from the plan: {'; '.join(differing)}")
        return toxic_rows(read_back)

    def differences(self, plan: Sequence[PlannedToxic], observed: dict[str, ProxyState]) -> list[str]:
        """Return the differences between observation and plan, in words."""
        return [*self.misplaced(observed), *_toxic_differences(plan, observed)]

    def misplaced(self, observed: dict[str, ProxyState]) -> list[str]:
        """Return missing proxies and proxies with a wrong listen address or upstream, in words."""
        problems = []
        for link in self._names.values():
            proxy = observed.get(link)
            if proxy is None:
                problems.append(f"{link}: its proxy is gone")
            elif proxy.upstream != str(self._topology.gateways[link]):
                problems.append(f"{link}: its proxy has the upstream {proxy.upstream}")
            elif not same_listen(self._listening.get(link, proxy.listen), proxy.listen):
                problems.append(f"{link}: its proxy listens on {proxy.listen}")
        return problems

    def _apply_to(self, proxy: ProxyState, plan: Sequence[PlannedToxic]) -> None:
        toxics = {toxic.name: toxic for toxic in plan if toxic.kind != DOWN}
        up = all(toxic.kind != DOWN for toxic in plan)
        remaining = set()
        for state in proxy.toxics:
            planned = toxics.get(state.name)
            if planned is None or not _is_same(planned, state):
                self._client.remove_toxic(proxy.name, state.name)
                continue
            remaining.add(state.name)
            if not _is_planned(planned, state):  # changed in place, so that no byte passes without it
                self._client.update_toxic(proxy.name, state.name, planned.attributes)
        for name, toxic in toxics.items():
            if name not in remaining:
                self._client.add_toxic(proxy.name, name, toxic.kind, toxic.stream, toxic.attributes)
        if proxy.enabled != up:
            self._client.set_enabled(proxy.name, up)

    def heal(self) -> list[dict[str, Any]]:
        """Remove every toxic of the lane and verify it."""
        return self.apply([])

    def remove(self) -> None:
        """Delete the lane's proxies."""
        for name in self._names:
            self._client.delete_proxy(name)


def _is_same(planned: PlannedToxic, state: ToxicState) -> bool:
    """Return whether both are the same toxic, apart from the attributes."""
    return state.kind == planned.kind and state.stream == planned.stream and state.toxicity == 1.0


def _is_planned(planned: PlannedToxic, state: ToxicState) -> bool:
    attributes = all(state.attributes.get(key) == value for key, value in planned.attributes.items())
    return _is_same(planned, state) and attributes


def _toxic_differences(plan: Sequence[PlannedToxic], observed: dict[str, ProxyState]) -> list[str]:
    """Return differences of existing proxies from the plan, in toxics and state (up or down), in words."""
    differing = []
    for link, proxy in observed.items():
        planned = [toxic for toxic in plan if toxic.link == link]
        if proxy.enabled == any(toxic.kind == DOWN for toxic in planned):
            differing.append(f"{link}: its proxy is {'up' if proxy.enabled else 'down'}")
        unplanned = list(proxy.toxics)
        for toxic in (toxic for toxic in planned if toxic.kind != DOWN):
            match = next((state for state in unplanned if _is_planned(toxic, state)), None)
            if match is None:
                differing.append(f"{link}: {toxic.kind} {toxic.stream} is missing")
            else:
                unplanned.remove(match)
        differing += [f"{link}: {state.kind} {state.stream} is not planned" for state in unplanned]
    return differing


def toxic_rows(observed: dict[str, ProxyState]) -> list[dict[str, Any]]:
    """Return every toxic, and every disabled proxy, as plain JSON."""
    rows: list[dict[str, Any]] = []
    for link, proxy in observed.items():
        if not proxy.enabled:
            rows.append({"link": link, "kind": DOWN})
        rows += [toxic_row(link, toxic) for toxic in proxy.toxics]
    return rows


def toxic_row(link: str, toxic: PlannedToxic | ToxicState) -> dict[str, Any]:
    attributes = dict(toxic.attributes)
    return {"link": link, "kind": toxic.kind, "stream": toxic.stream, "attributes": attributes}
