"""Calls and consumption of a run: requests and faults by link; the model's tokens, cost, latency. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import structs

from wirefault.dialects.mcp import MCP
from wirefault.history.events import AttemptArmed, Event, Exchange, RunStarted
from wirefault.history.judged_events import Costs
from wirefault.judging.evidence.toxics import has_failed
from wirefault.judging.requests import Request, is_refused_model
from wirefault.judging.trace import EpisodeTrace, traces
from wirefault.settings.budgets import Price, load_prices
from wirefault.stats.rates import percentile


@dataclass(frozen=True)
class FirstTokens:
    """Milliseconds from a request's last byte to the first text or tool call of its stream."""

    p50: float | None
    p95: float | None
    n: int  # streams


@dataclass(frozen=True)
class ModelUsage:
    """Tokens, cost and times of the model's replies in a run."""

    replies: int  # with an answer of the model
    with_usage: int  # of these, the ones with token counts: the sums are over them
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None  # of the models that have a price
    unpriced: list[str]  # the models without one; empty without prices
    first_token_ms: FirstTokens


def model_usage(events: Iterable[Event], prices: str = "") -> ModelUsage:
    """``prices`` as in the run's settings."""
    exchanges = list(_of_models(events))
    costs = costs_of(exchanges, load_prices(prices))
    times = [exchange.first_token_ms for exchange in exchanges if exchange.first_token_ms is not None]
    return ModelUsage(
        replies=costs.replies,
        with_usage=sum(exchange.tokens is not None for exchange in exchanges),
        tokens_in=costs.tokens_in,
        tokens_out=costs.tokens_out,
        cost_usd=costs.usd,
        unpriced=list(costs.unpriced),
        first_token_ms=FirstTokens(percentile(times, 50), percentile(times, 95), len(times)),
    )


def episode_costs(trace: EpisodeTrace) -> Costs:
    """What the episode cost, by the prices of its run."""
    prices = load_prices(str(trace.run.settings.get("prices", ""))) if trace.run else {}
    return structs.replace(costs_of(trace.events, prices), requests=len(trace.requests))


def costs_of(events: Iterable[Event], prices: Mapping[str, Price], other: Price | None = None) -> Costs:
    """``prices`` by the models' names; ``other``: of all other models, if it is known."""
    exchanges = list(_of_models(events))
    counted = [exchange for exchange in exchanges if exchange.tokens is not None]
    names = {exchange.model or "without a name" for exchange in counted}
    return Costs(
        replies=sum(map(_answered, exchanges)),
        uncounted=sum(map(may_have_unknown_tokens, exchanges)),
        tokens_in=_sum([exchange.tokens_in for exchange in counted]),
        tokens_out=_sum([exchange.tokens_out for exchange in counted]),
        usd=_cost(counted, prices, other),
        unpriced=tuple(sorted(names - prices.keys())) if prices and other is None else (),
    )


def _of_models(events: Iterable[Event]) -> Iterator[Exchange]:
    return (e for e in events if isinstance(e, Exchange) and e.of_model and e.replay != "hit")


def _answered(exchange: Exchange) -> bool:
    """Whether the model answered, even if a fault hid that from the caller."""
    return exchange.tokens is not None or (exchange.answered is not None and exchange.answered < 300)


def may_have_unknown_tokens(exchange: Exchange | None) -> bool:
    """Whether a model may have used tokens that no reply reports; a refused request costs none."""
    if exchange is None or exchange.tokens is not None or not exchange.forwarded:
        return False
    is_paid = exchange.of_model and exchange.replay != "hit"
    return is_paid and (exchange.answered is None or exchange.answered < 400)


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _cost(exchanges: Iterable[Exchange], prices: Mapping[str, Price], other: Price | None) -> float | None:
    costs = [
        price.usd(exchange.tokens_in, exchange.tokens_out)
        for exchange in exchanges
        if (price := prices.get(exchange.model or "", other)) is not None
    ]
    return math.fsum(costs) if costs else None


@dataclass
class LinkCalls:
    """The requests on one link, and what the subject did after a fault made one fail."""

    link: str
    server: str
    requests: int = 0
    faults: Counter[str] = field(default_factory=Counter)  # injected by the gateway, by kind
    toxics: Counter[str] = field(default_factory=Counter)  # drawn, by kind
    retried: int = 0  # of the requests that failed with a fault in them
    recovered: int = 0  # of the retried ones, answered well in the end
    abandoned: int = 0  # never sent again
    cut: int = 0  # connections under a toxic that got nothing back, or were reset
    reconnected: int = 0  # of those, followed by another connection of the same attempt
    connections: int = 0  # intercepted ones under a toxic
    is_mcp: bool = False  # some of its requests were MCP

    @property
    def failed(self) -> int:
        """How many requests failed for their caller with a fault in them."""
        return self.retried + self.abandoned


def calls_by_link(events: Iterable[Event]) -> list[LinkCalls]:
    """A row for each link that was called, had a toxic or was found at run time, in the order of the wiring.

    A link may be found by a call that never became a request, if its connection got no answer.
    """
    events = list(events)
    started = next(event for event in events if isinstance(event, RunStarted))
    rows = {link.name: LinkCalls(link.name, link.upstream) for link in started.wired}
    at_run_time = {link.name for link in started.wired if link.found}
    for event in events:
        if isinstance(event, AttemptArmed):
            for toxic in event.toxics:
                rows[toxic.link].toxics[toxic.kind] += 1
    for trace in traces(events):
        _add_connections(rows, trace)
        following = _following(trace)
        for request in trace.requests:
            if request.exchange is not None:
                row = rows.setdefault(request.link_name, LinkCalls(request.link_name, ""))
                _add_request(row, request, following.get(id(request), ()))
    return [row for row in rows.values() if row.requests or row.toxics or row.link in at_run_time]


def _add_request(row: LinkCalls, request: Request, again: Sequence[Request]) -> None:
    """``again``: the later requests for the same."""
    kinds = [fault.kind for fault in request.injected]
    row.requests += 1
    row.is_mcp |= request.exchange is not None and request.exchange.dialect == MCP.name
    row.faults.update(kinds)
    if kinds and request.failed:
        row.retried += bool(again)
        row.abandoned += not again
        row.recovered += any(later.failed is False for later in again)


def _add_connections(rows: Mapping[str, LinkCalls], trace: EpisodeTrace) -> None:
    """Count the connections under toxics: a toxic may act on bytes that never become a request."""
    for armed in trace.armed:
        for link in dict.fromkeys(toxic.link for toxic in armed.toxics):
            here = armed.attempt, link
            exchanges = [each for each in trace.exchanges if (each.attempt, each.link) == here]
            toxics = [toxic for toxic in armed.toxics if toxic.link == link]
            connections = trace.connections_of(*here)
            cut = [has_failed(connection, toxics, exchanges) for connection in connections]
            rows[link].connections += len(cut)
            rows[link].cut += sum(cut)
            rows[link].reconnected += sum(cut[:-1])


def _following(trace: EpisodeTrace) -> dict[int, Sequence[Request]]:
    """For the ``id`` of each request the later ones for the same; after a model's refusal also whatever else
    it is asked.
    """
    following: dict[int, Sequence[Request]] = {}
    for row in trace.rows:
        for place, request in enumerate(row):
            following[id(request)] = row[place + 1 :]
    for place, request in enumerate(trace.requests):
        if request.exchange is not None and is_refused_model(request.exchange):
            later = trace.requests[place + 1 :]
            following[id(request)] = [again for again in later if trace.asks_model_again(request, again)]
    return following
