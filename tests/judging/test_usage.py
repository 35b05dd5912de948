"""Tokens, their cost and the times to the first one, summed up; what nothing tells is None."""

import pytest

from tests.judging.oracle.histories import exchange
from tests.judging.test_summary import GOOD, run
from tests.report.test_console import printed
from wirefault.judging.summary import summarise
from wirefault.judging.usage import FirstTokens, model_usage

PRICES = '{"m": {"input": 2.0, "output": 10.0}}'


def reply(tokens_in=1000, tokens_out=100, model="m", **more):
    return exchange("model", tokens_in=tokens_in, tokens_out=tokens_out, model=model, **more)


def test_tokens_and_their_cost_are_added_up():
    usage = model_usage([reply(), reply(500, 50)], PRICES)
    assert (usage.replies, usage.with_usage, usage.tokens_in, usage.tokens_out) == (2, 2, 1500, 150)
    assert usage.cost_usd == pytest.approx(0.0045) and usage.unpriced == []


def test_no_data_is_none():
    for events in ([], [exchange("model")], [exchange("weather")]):
        usage = model_usage(events, PRICES)
        assert (usage.tokens_in, usage.tokens_out, usage.cost_usd) == (None, None, None)
        assert usage.first_token_ms == FirstTokens(None, None, 0)


def test_without_prices_there_is_no_cost_and_none_is_missing():
    usage = model_usage([reply()])
    assert (usage.cost_usd, usage.unpriced) == (None, [])


def test_a_model_without_a_price_is_named_and_costs_nothing():
    usage = model_usage([reply(), reply(model="other"), reply(model=None)], PRICES)
    assert usage.cost_usd == pytest.approx(0.003) and usage.unpriced == ["other", "without a name"]
    assert model_usage([reply(model="other")], PRICES).cost_usd is None


def test_replies_that_told_nothing_are_counted_and_errors_are_none():
    hidden = reply(status=400)  # by a fault, the model had answered
    usage = model_usage([reply(), exchange("model"), exchange("model", status=503), hidden])
    assert (usage.replies, usage.with_usage) == (3, 2)


def test_the_time_to_the_first_token_is_that_of_streams():
    times = [reply(first_token_ms=float(ms)) for ms in range(1, 21)]
    assert model_usage([*times, reply()]).first_token_ms == FirstTokens(10.0, 19.0, 20)


def test_a_summary_has_it_as_json_and_for_people():
    events = [*run([*GOOD, reply(first_token_ms=12.0), exchange("model")], prices=PRICES)]
    assert summarise(events).as_json()["model_usage"] == {
        **{"replies": 2, "with_usage": 1, "tokens_in": 1000, "tokens_out": 100},
        **{"cost_usd": pytest.approx(0.003), "unpriced": []},
        "first_token_ms": {"p50": 12.0, "p95": 12.0, "n": 1},
    }
    text = printed(events)
    assert "model tokens: 1000 in, 100 out (1 of 2 replies without counts)   cost: 0.003 USD" in text
    assert "first token: p50 12.0, p95 - ms, n = 1" in text
    assert "model tokens" not in printed(run(GOOD))


def test_a_model_without_a_price_is_said():
    assert "no price: other" in printed(run([*GOOD, reply(model="other")], prices=PRICES))
