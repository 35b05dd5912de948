"""Tokens and money of an audit's model requests."""

from __future__ import annotations

from typing import Any

import pytest

from tests.judging.oracle.histories import exchange
from tests.support import replace
from wirefault.audit.calls import calls_in
from wirefault.audit.question import Ask
from wirefault.audit.questions import QUESTIONS
from wirefault.audit.spending import Prices, estimate, spending
from wirefault.history.events import Exchange
from wirefault.judging.trace import episode_trace
from wirefault.settings.budgets import Price

PRICE = Price(2, 10)


def model(start: float, tokens: int | None = 100, **more: Any) -> Exchange:
    target = "/v1/chat/completions"
    answer = exchange(call=int(start), link="openai", dialect="openai_chat", method="POST", target=target)
    return replace(answer, start=start, model="m", tokens_in=tokens, tokens_out=tokens, status=200, **more)


@pytest.mark.parametrize(
    ("prices", "cost"),
    [
        (Prices({}), None),
        (Prices({"m": PRICE}), 100 * 12e-6),
        (Prices({"other": PRICE}), None),
        (Prices({"other": PRICE}, Price(1, 1)), 100 * 2e-6),
    ],
)
def test_cost_needs_a_price_of_each_model(prices: Prices, cost: float | None) -> None:
    spent = spending([model(1)], prices)
    assert spent.cost_usd == (None if cost is None else pytest.approx(cost))
    assert (spent.requests, spent.tokens) == (1, 200)


def test_replayed_replies_cost_nothing() -> None:
    spent = spending([model(1, replay="hit"), model(2, replay="miss")], Prices({}, PRICE))
    assert (spent.requests, spent.tokens, spent.cost_usd) == (1, 200, pytest.approx(1200e-6))
    assert (spent.saved_requests, spent.saved_tokens, spent.missed) == (1, 200, 1)


def test_reply_without_tokens_is_counted_apart() -> None:
    assert spending([model(1, None)], Prices({}, PRICE)).uncounted == 1


def test_estimate_leaves_out_replies_that_will_be_replayed() -> None:
    clean = [model(1), model(2), model(3)]
    call = calls_in(episode_trace(clean))[1]
    ask = Ask("q01", QUESTIONS["model_5xx"], call)
    assert estimate([ask, ask], clean, (), Prices({})).requests == 6
    assert estimate([ask, ask], clean, ("openai",), Prices({})).requests == 2
