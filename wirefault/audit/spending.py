"""The cost of an audit's model requests, and before its runs with faults an estimate. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec import structs

from wirefault.audit.question import Ask
from wirefault.experiments.cost import Cost
from wirefault.history.events import Exchange
from wirefault.judging.summary import counted
from wirefault.judging.usage import costs_of
from wirefault.settings.budgets import Price


@dataclass(frozen=True)
class Prices:
    """US dollars per million tokens."""

    by_model: Mapping[str, Price]
    usual: Price | None = None
    """Of all other models; None if theirs is unknown."""


@dataclass(frozen=True)
class Spending:
    """Model requests that reached a model, and those that got a clean run's reply instead."""

    requests: int = 0
    tokens: int = 0
    uncounted: int = 0
    """Requests that may have used tokens which no reply reports."""
    cost_usd: float | None = None
    """None without a price for each model that answered."""
    saved_requests: int = 0
    saved_tokens: int = 0
    missed: int = 0
    """Requests before the fault that no recorded reply fitted, so that the model answered."""


def spending(exchanges: Iterable[Exchange], prices: Prices) -> Spending:
    """Add up the model requests among the exchanges."""
    of_model = [exchange for exchange in exchanges if exchange.of_model]
    hits = [exchange for exchange in of_model if exchange.replay == "hit"]
    costs = costs_of(of_model, prices.by_model, prices.usual)
    is_priced = not costs.unpriced and (prices.by_model or prices.usual)
    return Spending(
        requests=sum(exchange.forwarded and exchange.replay != "hit" for exchange in of_model),
        tokens=costs.tokens or 0,
        uncounted=costs.uncounted,
        cost_usd=(costs.usd or 0.0) if is_priced else None,
        saved_requests=len(hits),
        saved_tokens=sum(exchange.tokens or 0 for exchange in hits),
        missed=sum(exchange.replay == "miss" for exchange in of_model),
    )


def estimate(
    runs: Iterable[Ask], clean: Sequence[Exchange], replayed: Sequence[str], prices: Prices
) -> Spending:
    """Estimate runs with faults: each makes the clean run's model requests, or those after its fault."""
    requests = (
        exchange
        for ask in runs
        for exchange in clean
        if exchange.start > ask.call.start or exchange.link not in replayed
    )
    return spending(requests, prices)


def with_money(cost: Cost, spent: Spending) -> Cost:
    """Add what models are paid; the tokens, where their price or some of them are unknown."""
    if spent.cost_usd is not None and not spent.uncounted:
        return structs.replace(cost, usd=spent.cost_usd)
    if not spent.requests:
        return cost
    without = counted(spent.uncounted, "request")
    more = f" or more, {without} without token counts" if spent.uncounted else ""
    least = f", {spent.cost_usd:.3g} USD or more" if spent.cost_usd is not None else ""
    return structs.replace(cost, tokens=f"{spent.tokens} model tokens{more}{least}")
