"""Tokens, cost and times to the first one; calls by link and the reactions to faults."""

from __future__ import annotations

import pytest

from tests.judging.oracle.histories import exchange
from tests.judging.test_evidence import intercepted
from tests.judging.test_summary import GOOD, run
from tests.report.test_console import printed
from tests.support import replace
from wirefault.cli.exec import _story
from wirefault.experiments.logical_calls import logical_calls
from wirefault.history.events import AttemptArmed, Exchange, FaultMet, RunStarted
from wirefault.judging.metrics import Metrics
from wirefault.judging.summary import summarise
from wirefault.judging.trace import traces
from wirefault.judging.usage import FirstTokens, calls_by_link, model_usage
from wirefault.report.page.figures import link_figures
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.wiring.links import Link

PRICES = '{"m": {"input": 2.0, "output": 10.0}}'


def reply(tokens_in=1000, tokens_out=100, model="m", **more):
    return exchange("model", tokens_in=tokens_in, tokens_out=tokens_out, model=model, **more)


def test_tokens_and_cost_are_summed():
    usage = model_usage([reply(), reply(500, 50)], PRICES)
    assert (usage.replies, usage.with_usage, usage.tokens_in, usage.tokens_out) == (2, 2, 1500, 150)
    assert usage.cost_usd == pytest.approx(0.0045) and usage.unpriced == []


def test_no_data_is_none():
    for events in ([], [exchange("model")], [exchange("weather")]):
        usage = model_usage(events, PRICES)
        assert (usage.tokens_in, usage.tokens_out, usage.cost_usd) == (None, None, None)
        assert usage.first_token_ms == FirstTokens(None, None, 0)


def test_no_prices_no_cost():
    usage = model_usage([reply()])
    assert (usage.cost_usd, usage.unpriced) == (None, [])


def test_unpriced_model_is_named():
    usage = model_usage([reply(), reply(model="other"), reply(model=None)], PRICES)
    assert usage.cost_usd == pytest.approx(0.003) and usage.unpriced == ["other", "without a name"]
    assert model_usage([reply(model="other")], PRICES).cost_usd is None


def test_replies_without_counts():
    hidden = reply(status=400)  # by a fault, the model had answered
    usage = model_usage([reply(), exchange("model"), exchange("model", status=503), hidden])
    assert (usage.replies, usage.with_usage) == (3, 2)


def test_first_token_time():
    times = [reply(first_token_ms=float(ms)) for ms in range(1, 21)]
    assert model_usage([*times, reply()]).first_token_ms == FirstTokens(10.0, 19.0, 20)


def test_usage_in_summary():
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


def test_unpriced_model_is_printed():
    assert "no price: other" in printed(run([*GOOD, reply(model="other")], prices=PRICES))


SHOP = Link("shop", "https://shop.example.com", found=True)
STARTED = RunStarted(0.0, "r", "lab-1", 0, 7, {}, "command", 1, links=[SHOP])
ASKED = Exchange(
    1.0, "e", 1, "shop", "POST", "/orders", 1, 5.0, 200, 10, 10, fingerprint="f1", identity="counted"
)
STRUCK = replace(ASKED, status=503, faults=[FaultMet("u", "unavailable", True)])


def test_retried_request_recovers():
    (row,) = calls_by_link([STARTED, STRUCK, replace(ASKED, start=2.0)])
    assert (row.requests, dict(row.faults)) == (2, {"unavailable": 1})
    assert (row.retried, row.recovered, row.abandoned) == (1, 1, 0)


KEYED = '{{"refund": 17, "idempotency_key": "{}"}}'


def test_every_table_counts_retry_with_another_key_in_body():
    """Three readers that could say "none sent again" beside the finding that the write was."""
    first = replace(STRUCK, request_body=KEYED.format("a1"))
    again = replace(ASKED, start=2.0, fingerprint="f2", request_body=KEYED.format("b2"))
    other = replace(again, request_body='{"refund": 18}')
    assert [row.retried for row in calls_by_link([STARTED, first, again])] == [1]
    assert [row.retried for row in calls_by_link([STARTED, first, other])] == [0]
    of_both, of_others = (traces([STARTED, first, second]) for second in (again, other))
    assert [link_figures(each)[0]["again"] for each in (of_both, of_others)] == [{"code": 1}, {}]
    assert [len(logical_calls(*each)) for each in (of_both, of_others)] == [1, 2]
    assert [Metrics(*each).retries for each in (of_both, of_others)] == [1, 0]
    assert [len(each.repeated) for [each] in (of_both, of_others)] == [1, 0]


def test_refused_model_asked_with_another_prompt_is_retry():
    first_request = {"dialect": "openai_chat", "target": "/v1/chat/completions"}
    first = replace(STRUCK, status=429, request_body='{"messages": []}', **first_request)
    again = replace(ASKED, start=2.0, fingerprint="f2", request_body='{"messages": ["429"]}', **first_request)
    assert [row.retried for row in calls_by_link([STARTED, first, again])] == [1]


def test_other_request_is_not_retry():
    (row,) = calls_by_link([STARTED, STRUCK, replace(ASKED, start=2.0, fingerprint="f2")])
    assert (row.retried, row.recovered, row.abandoned) == (0, 0, 1)


def test_equal_request_that_began_before_the_failure_is_not_retry():
    (row,) = calls_by_link([STARTED, STRUCK, replace(ASKED, start=STRUCK.start + 0.002)])
    assert (row.retried, row.recovered, row.abandoned) == (0, 0, 1)


@pytest.mark.parametrize(("opened_ms", "retried"), [(8.0, 0), (1.0, 1)])
def test_equal_request_on_connection_from_before_the_failure_is_not_retry(opened_ms, retried):
    (row,) = calls_by_link([STARTED, STRUCK, replace(ASKED, start=1.01, opened_ms=opened_ms)])
    assert (row.retried, row.abandoned) == (retried, 1 - retried)


def test_request_that_always_fails_does_not_recover():
    (row,) = calls_by_link([STARTED, STRUCK, replace(STRUCK, start=2.0)])
    assert (row.retried, row.recovered, row.abandoned) == (1, 0, 1)


def test_fault_without_effect_is_not_counted():
    fault_met = FaultMet("u", "unavailable", False, "cut_short")
    (row,) = calls_by_link([STARTED, replace(ASKED, faults=[fault_met])])
    assert not row.faults and not row.failed


def test_link_with_toxic_has_row():
    armed = AttemptArmed(0.5, "e", 1, 3.0, [PlannedToxic("shop", "timeout", "upstream", {"timeout": 400})])
    (row,) = calls_by_link([STARTED, armed])
    assert (row.requests, dict(row.toxics)) == (0, {"timeout": 1})


@pytest.mark.parametrize(
    ("ended_by", "left", "cut"), [("proxy", True, 1), ("proxy", False, 0), ("client", True, 0)]
)
def test_close_by_proxy_within_reply_is_failed_connection(ended_by, left, cut):
    armed = AttemptArmed(0.5, "e", 1, 3.0, [PlannedToxic("shop", "cut_after", "downstream", {"age": 900})])
    connection = intercepted(
        link="shop", episode="e", opened=1.0, t=2.0, received=640, ended_by=ended_by, how="fin"
    )
    reply = replace(ASKED, start=1.1, ms=950.0, client_left=left, reply_complete=not left)
    (row,) = calls_by_link([STARTED, armed, connection, reply])
    assert (row.connections, row.cut) == (1, cut)


def test_connection_that_toxic_cut_within_reply_has_failed():
    """As the findings see it: the gateway wrote all of the reply, and 40 bytes of it passed."""
    toxic = PlannedToxic("shop", "limit_data", "downstream", {"bytes": 40})
    armed = AttemptArmed(0.5, "e", 1, 3.0, [toxic])
    silent, cut, unused = (
        intercepted(link="shop", episode="e", opened=at, t=at + 0.5, received=down, sent=up, how="fin")
        for at, down, up in ((1.0, 0, 90), (2.0, 40, 90), (3.0, 0, 0))
    )
    (row,) = calls_by_link([STARTED, armed, silent, cut, unused])
    assert (row.connections, row.cut) == (3, 2)


def test_tool_that_answers_with_an_error_has_failed():
    """As for statements about recovery; its status is 200."""
    error = replace(ASKED, message="tools/call", tool="order", tool_answer="error", dialect="mcp")
    struck = replace(error, faults=[FaultMet("d", "drop_argument", True)])
    (row,) = calls_by_link([STARTED, struck, replace(error, start=2.0)])
    assert (row.retried, row.recovered) == (1, 0)


def test_connections_under_toxic_show_mitigation():
    armed = AttemptArmed(0.5, "e", 1, 3.0, [PlannedToxic("shop", "timeout", "upstream", {"timeout": 400})])
    tries = [intercepted(link="shop", episode="e", opened=float(at), received=0) for at in (1, 2)]
    answered = intercepted(link="shop", episode="e", opened=3.0, received=9)
    elsewhere = intercepted(link="shop", episode="other", opened=4.0)
    (row,) = calls_by_link([STARTED, armed, *tries, answered, elsewhere])
    assert (row.connections, row.cut, row.reconnected) == (3, 2, 2)
    assert _story(row) == "toxics: timeout; 2 of 3 connections failed, 2 followed by another"
    (row,) = calls_by_link([STARTED, armed, answered])
    assert _story(row) == "toxics: timeout"


def test_delayed_request_needs_no_retry():
    delayed = replace(ASKED, faults=[FaultMet("d", "delay", True)])
    (row,) = calls_by_link([STARTED, delayed])
    assert dict(row.faults) == {"delay": 1} and not row.failed


def test_link_without_answer_has_row():
    (row,) = calls_by_link([STARTED])
    assert (row.link, row.requests) == ("shop", 0)
