"""What the model's replies of a run took: tokens, what these cost, and the time to the first one. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wirefault.history.events import Event, Exchange
from wirefault.settings.budgets import Price, load_prices
from wirefault.stats.rates import percentile

_MILLION = 1_000_000


@dataclass(frozen=True)
class FirstTokens:
    """Milliseconds from a request's last byte to its stream's first text or tool call, of ``n`` streams."""

    p50: float | None
    p95: float | None
    n: int


@dataclass(frozen=True)
class ModelUsage:
    """Of ``replies`` with an answer of the model ``told`` said what they took; the sums are of these.

    ``cost_usd`` is of the models that have a price; ``unpriced`` names the others, empty without any prices.
    """

    replies: int
    told: int
    tokens_in: int | None
    tokens_out: int | None
    cost_usd: float | None
    unpriced: list[str]
    first_token_ms: FirstTokens


def model_usage(events: Iterable[Event], prices: str = "") -> ModelUsage:
    """``prices``: as the run's settings have them."""
    return usage_of(events, load_prices(prices))


def usage_of(events: Iterable[Event], known: Mapping[str, Price]) -> ModelUsage:
    """``known``: the prices by the models' names."""
    asked = [event for event in events if isinstance(event, Exchange) and event.of_model]
    telling = [e for e in asked if e.tokens_in is not None or e.tokens_out is not None]
    names = {event.model or "without a name" for event in telling}
    times = [event.first_token_ms for event in asked if event.first_token_ms is not None]
    return ModelUsage(
        replies=sum(map(_answered, asked)),
        told=len(telling),
        tokens_in=_sum([event.tokens_in for event in telling]),
        tokens_out=_sum([event.tokens_out for event in telling]),
        cost_usd=_cost(telling, known),
        unpriced=sorted(names - known.keys()) if known else [],
        first_token_ms=FirstTokens(percentile(times, 50), percentile(times, 95), len(times)),
    )


def _answered(event: Exchange) -> bool:
    """Whether the model answered; a fault may have hidden that from the caller."""
    told = event.tokens_in is not None or event.tokens_out is not None
    return told or (event.status is not None and event.status < 300)


def _sum(counts: Sequence[int | None]) -> int | None:
    there = [count for count in counts if count is not None]
    return sum(there) if there else None


def _cost(telling: Iterable[Exchange], prices: Mapping[str, Price]) -> float | None:
    costs = [
        (event.tokens_in or 0) * price.input + (event.tokens_out or 0) * price.output
        for event in telling
        if (price := prices.get(event.model or "")) is not None
    ]
    return sum(costs) / _MILLION if costs else None
