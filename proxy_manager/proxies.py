"""A lane's eight proxies: what shall be (a plan) made true at Toxiproxy, and read back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from windtunnel.core.sockets import Address
from windtunnel.links.catalog import LINKS
from windtunnel.links.topology import Topology
from windtunnel.toxiproxy.client import ProxyState, ToxicState, ToxiproxyClient, ToxiproxyError, same_listen
from windtunnel.toxiproxy.planned import PlannedToxic

DOWN = "down"


class NotAsPlanned(ToxiproxyError):
    """What was read back is not what was set."""


class LaneProxies:
    """The proxies of one lane on one server. Raises ``ToxiproxyError`` from every method.

    It touches no proxy but its own, so that several labs can share a server.
    """

    def __init__(self, client: ToxiproxyClient, topology: Topology) -> None:
        self._client = client
        self._topology = topology
        self._names = {topology.proxy_name(link.name): link.name for link in LINKS}
        self._listening: dict[str, str] = {}

    def ensure(self) -> dict[str, Address]:
        """Creates what is missing; where each link's proxy is to be dialled.

        A port that is taken is replaced the first time; later on it stays what it was, since callers know it.
        Where the topology says what to listen on, callers know that: it stays, name and port.
        """
        addresses = {}
        for name, link in self._names.items():
            told = self._topology.proxy_listen.get(link)
            known = str(told) if told else self._listening.get(link)
            listen = known or str(self._topology.listen_address(link))
            upstream = str(self._topology.gateways[link])
            proxy = self._client.ensure_proxy(name, listen, upstream, replace_taken=known is None)
            self._listening[link] = known or proxy.listen
            addresses[link] = Address(self._topology.proxies[link].host, Address.parse(proxy.listen).port)
        return addresses

    def observe(self) -> dict[str, ProxyState]:
        """The lane's proxies by link, as the server has them now; a missing one is left out."""
        found = self._client.proxies()
        return {link: found[name] for name, link in self._names.items() if name in found}

    def apply(self, plan: Sequence[PlannedToxic]) -> list[dict[str, Any]]:
        """Makes the plan, and nothing but the plan, true; what was read back. Raises ``NotAsPlanned``."""
        observed = self.observe()
        if self._misplaced(observed):
            self.ensure()
            observed = self.observe()
        for link, proxy in observed.items():
            self._apply_to(proxy, [toxic for toxic in plan if toxic.link == link])
        read_back = self.observe()
        wrong = self.differences(plan, read_back)
        if wrong:
            raise NotAsPlanned(f"Toxiproxy is not as it was set: {'; '.join(wrong)}")
        return describe(read_back)

    def differences(self, plan: Sequence[PlannedToxic], observed: dict[str, ProxyState]) -> list[str]:
        """How what was observed differs from the plan, in words; empty when it does not."""
        return [*self._misplaced(observed), *differences(plan, observed)]

    def _misplaced(self, observed: dict[str, ProxyState]) -> list[str]:
        """The proxies that are not where callers dial them, or do not lead to the gateway."""
        found = []
        for link in self._names.values():
            proxy = observed.get(link)
            if proxy is None:
                found.append(f"{link}: its proxy is gone")
            elif proxy.upstream != str(self._topology.gateways[link]):
                found.append(f"{link}: its proxy leads to {proxy.upstream}")
            elif not same_listen(self._listening.get(link, proxy.listen), proxy.listen):
                found.append(f"{link}: its proxy listens on {proxy.listen}")
        return found

    def _apply_to(self, proxy: ProxyState, wanted: Sequence[PlannedToxic]) -> None:
        toxics = {toxic.name: toxic for toxic in wanted if toxic.kind != DOWN}
        up = all(toxic.kind != DOWN for toxic in wanted)
        kept = set()
        for state in proxy.toxics:
            planned = toxics.get(state.name)
            if planned is not None and _same(planned, state):
                kept.add(state.name)
            else:
                self._client.remove_toxic(proxy.name, state.name)
        for name, toxic in toxics.items():
            if name not in kept:
                self._client.add_toxic(proxy.name, name, toxic.kind, toxic.stream, toxic.attributes)
        if proxy.enabled != up:
            self._client.set_enabled(proxy.name, up)

    def heal(self) -> list[dict[str, Any]]:
        """Removes every toxic of the lane and verifies it; what is left (nothing)."""
        return self.apply([])

    def remove(self) -> None:
        """Deletes the lane's proxies."""
        for name in self._names:
            self._client.delete_proxy(name)


def _same(planned: PlannedToxic, state: ToxicState) -> bool:
    attributes = all(state.attributes.get(key) == value for key, value in planned.attributes.items())
    return (
        state.kind == planned.kind and state.stream == planned.stream and state.toxicity == 1.0 and attributes
    )


def differences(plan: Sequence[PlannedToxic], observed: dict[str, ProxyState]) -> list[str]:
    """How the proxies that there are differ from the plan in their toxics and in being up or down."""
    found = []
    for link, proxy in observed.items():
        wanted = [toxic for toxic in plan if toxic.link == link]
        if proxy.enabled == any(toxic.kind == DOWN for toxic in wanted):
            found.append(f"{link}: its proxy is {'up' if proxy.enabled else 'down'}")
        left = list(proxy.toxics)
        for toxic in (toxic for toxic in wanted if toxic.kind != DOWN):
            match = next((state for state in left if _same(toxic, state)), None)
            if match is None:
                found.append(f"{link}: {toxic.kind} {toxic.stream} is missing")
            else:
                left.remove(match)
        found += [f"{link}: {state.kind} {state.stream} is there unasked" for state in left]
    return found


def describe(observed: dict[str, ProxyState]) -> list[dict[str, Any]]:
    """What disturbs the lane at the moment, as plain JSON: every toxic, every proxy that is down."""
    rows: list[dict[str, Any]] = []
    for link, proxy in observed.items():
        if not proxy.enabled:
            rows.append({"link": link, "kind": DOWN})
        rows += [
            {"link": link, "kind": t.kind, "stream": t.stream, "attributes": dict(t.attributes)}
            for t in proxy.toxics
        ]
    return rows
