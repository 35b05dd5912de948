"""The toxics in front of the gateway, whose record does not show which of its replies arrived. Pure.

A connection of the ingress, or a toxic that must have acted, shows it; else it stays unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from wirefault.history.events import AttemptArmed, ConnectionEnded, Exchange
from wirefault.judging.requests import Request
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.toxiproxy.toxics import toxic

# Toxics that make a reply late or slow but keep none back: a caller that loses one has left on its own.
ONLY_SLOW = frozenset({"slicer", "slow_close", "noop"})
# A caller waits at least that long for a slow reply.
_PATIENCE_S = 0.5


@dataclass(frozen=True)
class HeldBack:
    """A toxic that delays a reply at least so long, and the moment before which that cannot arrive."""

    kind: str
    delay_s: float
    until: float


@dataclass(frozen=True)
class ToxicsOnReplies:
    """The toxics of an episode, and what they did to the replies that the gateway wrote."""

    armed: Sequence[AttemptArmed]
    exchanges: Sequence[Exchange]
    connections_of: Callable[[int, str], Sequence[ConnectionEnded]]
    """The intercepted ones of an attempt and link."""
    changed: bool
    """Whether the manager changed toxics within an attempt."""

    def keep_all(self, attempt: int, link: str) -> bool | None:
        """Whether a toxic keeps every reply on that link from its caller; None if it may be some of them."""
        toxics = [each for each in self._on(attempt, link) if each.kind not in ONLY_SLOW]
        if not toxics:
            return False
        keeps_all = any(each.kind == "timeout" and each.stream == "downstream" for each in toxics)
        return True if keeps_all and not self.changed else None

    def make_slow(self, request: Request) -> bool:
        """Whether a toxic makes the reply so slow that its caller may have left."""
        toxics = self._on(request.attempt, request.link_name)
        return max((_delay_s(each, request) for each in toxics), default=0) >= _PATIENCE_S

    @cached_property
    def kept_back(self) -> frozenset[int]:
        """The ``id`` of each exchange whose caller got less than the gateway wrote, because of a toxic.

        The ingress shows it where each of a link's connections carried one request, without TLS.
        """
        exchanges: defaultdict[tuple[int, str], list[Exchange]] = defaultdict(list)
        for exchange in sorted(self.exchanges, key=lambda each: each.start):
            exchanges[exchange.attempt, exchange.link].append(exchange)
        lost: set[int] = set()
        for (attempt, link), group in exchanges.items():
            connections = self.connections_of(attempt, link)
            if len(connections) == len(group) and self._on(attempt, link):
                lost |= {
                    id(exchange)
                    for exchange, connection in zip(group, connections, strict=True)
                    if exchange.opened_ms is not None and not connection.tls
                    if connection.received < exchange.reply_bytes
                }
        return frozenset(lost)

    def must_have_cut(self, request: Request) -> bool:
        """Whether ``limit_data`` cut the reply: it passes less than the gateway wrote."""
        size = request.exchange.reply_bytes if request.exchange else 0
        return not self.changed and any(
            each.kind == "limit_data" and each.stream == "downstream" and each.attributes["bytes"] < size
            for each in self._on(request.attempt, request.link_name)
            if each.lasts_attempt
        )

    def longest_delay(self, request: Request) -> HeldBack | None:
        """The toxic that delays the reply most, if one must have, as far as it is known."""
        toxics = [each for each in self._on(request.attempt, request.link_name) if each.lasts_attempt]
        if not toxics or self.changed:
            return None
        delays = [(each.kind, _delay_s(each, request)) for each in toxics]
        kind, delay_s = max(delays, key=lambda each: each[1])
        # latency begins at each byte; the others may hold some back while the gateway writes the rest
        until = (request.end if kind == "latency" else request.start) + delay_s
        return HeldBack(kind, delay_s, until) if delay_s else None

    def _on(self, attempt: int, link: str) -> list[PlannedToxic]:
        return [t for armed in self.armed if armed.attempt == attempt for t in armed.toxics if t.link == link]


def _delay_s(planned: PlannedToxic, request: Request) -> float:
    """The least time for which it delays the whole reply."""
    if planned.stream != "downstream" or request.exchange is None:
        return 0.0
    try:
        known = toxic(planned.kind)
        return known.least_ms(known.complete(planned.attributes), request.exchange.reply_bytes) / 1000
    except ValueError:  # this version does not know the toxic
        return 0.0
