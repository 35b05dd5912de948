"""What a subject called, what struck it there, and what it did next. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from wirefault.dialects.mcp import MCP
from wirefault.history.events import AttemptArmed, Event, Exchange, RunStarted


@dataclass
class LinkCalls:
    """The requests on one link. Toxics are not in ``struck``, since they are not of single requests.

    ``struck``: how often each fault was injected. Of the requests that failed for their caller with a fault
    in them, it sent ``again`` some, ``recovered`` of which were then answered well, and never again ``left``.
    ``toxics``: how often each kind was drawn. ``of_mcp``: some of its requests were of MCP.
    """

    link: str
    server: str
    requests: int = 0
    struck: Counter[str] = field(default_factory=Counter)
    toxics: Counter[str] = field(default_factory=Counter)
    again: int = 0
    recovered: int = 0
    left: int = 0
    of_mcp: bool = False

    @property
    def failed(self) -> int:
        """How many requests failed for their caller with a fault in them."""
        return self.again + self.left


def calls_by_link(events: Iterable[Event]) -> list[LinkCalls]:
    """A row for each link that was called, had a toxic or was found, in the order of the wiring.

    One may be found by a call that never became a request, since nobody answered the connection.
    """
    events = list(events)
    started = next(event for event in events if isinstance(event, RunStarted))
    rows = {link.name: LinkCalls(link.name, link.upstream) for link in started.wired}
    found = {link.name for link in started.wired if link.found}
    for event in events:
        if isinstance(event, AttemptArmed):
            for toxic in event.toxics:
                rows[toxic.link].toxics[toxic.kind] += 1
    exchanges = sorted((e for e in events if isinstance(e, Exchange)), key=lambda e: e.start)
    for place, exchange in enumerate(exchanges):
        row = rows.setdefault(exchange.link, LinkCalls(exchange.link, ""))
        row.requests += 1
        row.of_mcp |= exchange.dialect == MCP.name
        row.struck.update(_injected(exchange))
        if _injected(exchange) and not _went_well(exchange):
            _add_reaction(row, exchange, exchanges[place + 1 :])
    return [row for row in rows.values() if row.requests or row.toxics or row.link in found]


def _injected(exchange: Exchange) -> list[str]:
    return [met.kind for met in exchange.faults if met.injected]


def _add_reaction(row: LinkCalls, struck: Exchange, later: Sequence[Exchange]) -> None:
    """What came of a request that a fault was injected into: the same request, asked again or never."""
    same = [
        exchange
        for exchange in later
        if (exchange.episode, exchange.attempt, exchange.link, exchange.method, exchange.fingerprint)
        == (struck.episode, struck.attempt, struck.link, struck.method, struck.fingerprint)
    ]
    if not same:
        row.left += 1
        return
    row.again += 1
    row.recovered += any(map(_went_well, same))


def _went_well(exchange: Exchange) -> bool:
    return exchange.reply_complete and (exchange.status or 500) < 400
