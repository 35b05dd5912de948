"""The cost of an audit's model requests, and before its runs with faults an estimate. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wirefault.audit.question import Ask
from wirefault.history.events import Exchange
from wirefault.settings.budgets import Price

_MILLION = 1_000_000


@dataclass(frozen=True)
class Prices:
    """US dollars per million tokens."""

    by_model: Mapping[str, Price]
    usual: Price | None = None
    """Of all other models; None if theirs is unknown."""

    def of(self, exchange: Exchange) -> Price | None:
        """Return the price of the model that answered."""
        return self.by_model.get(exchange.model or "", self.usual)


@dataclass(frozen=True)
class Spending:
    """Model requests that reached a model, and those that got a clean run's reply instead."""

    requests: int = 0
    tokens: int = 0
    uncounted: int = 0
    """Requests with an answer that reports no tokens."""
    cost_usd: float | None = None
    """None without a price for each model that answered."""
    saved_requests: int = 0
    saved_tokens: int = 0
    missed: int = 0
    """Requests before the fault that no recorded reply fitted, so that the model answered."""


def spending(exchanges: Iterable[Exchange], prices: Prices) -> Spending:
    """Add up the model requests among the exchanges."""
    of_model = [exchange for exchange in exchanges if exchange.of_model]
    live = [exchange for exchange in of_model if exchange.replay != "hit"]
    hits = [exchange for exchange in of_model if exchange.replay == "hit"]
    answered = [exchange for exchange in live if exchange.forwarded and _succeeded(exchange)]
    return Spending(
        requests=sum(exchange.forwarded for exchange in live),
        tokens=sum(map(_tokens, live)),
        uncounted=sum(not _has_tokens(exchange) for exchange in answered),
        cost_usd=_cost(live, prices),
        saved_requests=len(hits),
        saved_tokens=sum(map(_tokens, hits)),
        missed=sum(exchange.replay == "miss" for exchange in of_model),
    )


def estimate(
    asks: Iterable[Ask], clean: Sequence[Exchange], replayed: Sequence[str], prices: Prices
) -> Spending:
    """Estimate the runs with faults: each makes the clean run's model requests, or those after its fault."""
    return spending(list(_planned(asks, clean, replayed)), prices)


def _planned(asks: Iterable[Ask], clean: Sequence[Exchange], replayed: Sequence[str]) -> Iterator[Exchange]:
    for ask in asks:
        for _ in range(1 if ask.question.hangs else 2):
            for exchange in clean:
                if exchange.start > ask.call.start or exchange.link not in replayed:
                    yield exchange


def _cost(exchanges: Sequence[Exchange], prices: Prices) -> float | None:
    total = 0.0
    for exchange in exchanges:
        if not _has_tokens(exchange):
            continue
        price = prices.of(exchange)
        if price is None:
            return None
        total += (exchange.tokens_in or 0) * price.input + (exchange.tokens_out or 0) * price.output
    return total / _MILLION if prices.by_model or prices.usual else None


def _succeeded(exchange: Exchange) -> bool:
    return exchange.answered is not None and exchange.answered < 300


def _has_tokens(exchange: Exchange) -> bool:
    return exchange.tokens_in is not None or exchange.tokens_out is not None


def _tokens(exchange: Exchange) -> int:
    return (exchange.tokens_in or 0) + (exchange.tokens_out or 0)
