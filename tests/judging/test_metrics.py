"""Figures of an episode's requests."""

from __future__ import annotations

from typing import Any

from tests.judging.oracle.histories import exchange, fault_met
from wirefault.history.events import Exchange
from wirefault.judging.metrics import FaultInCall, Metrics, metrics_of


def model(at: float, **more: Any) -> Exchange:
    event: Exchange = exchange("model", start=at, dialect="openai_chat", **more)
    return event


ASKED = '{"messages": [{"role": "user"}]}'
FIRST = model(1.0, ms=30.0, tokens_in=10, tokens_out=2, first_token_ms=7.0, request_body=ASKED)
NO_JSON: dict[str, Any] = {"request_body": "cut off"}
CUT = model(2.0, ms=20.0, complete=(True, False), fault=fault_met("stream_cut"), **NO_JSON)
AGAIN = model(3.0, ms=10.0, tokens_in=12, first_token_ms=5.0, sdk_retry=1, call=2, **NO_JSON)
SEARCH = exchange("search", start=2.5, ms=5.0, status=503)


def of_requests(*exchanges: Exchange) -> Metrics:
    return metrics_of(exchanges, FIRST.episode)


def test_figures_are_those_of_the_requests() -> None:
    metrics = metrics_of([AGAIN, SEARCH, CUT, FIRST], FIRST.episode)
    assert [each.start for each in metrics.history] == [1.0, 2.0, 2.5, 3.0]
    assert (metrics.calls, metrics.retries, metrics.failed_calls) == (4, 1, 2)
    assert metrics.calls_by_link == {"model": 3, "search": 1}
    assert metrics.latencies_ms == [30.0, 20.0, 5.0, 10.0]
    assert (metrics.tokens_in, metrics.tokens_out) == (22, 2)
    assert metrics.first_token_ms == [7.0, 5.0]
    assert metrics.conversation == [{"role": "user"}]
    assert metrics.faults == [FaultInCall("model", "stream_cut", injected=True)]


def test_error_of_a_tool_is_a_failure() -> None:
    """As for statements about `failed_calls`; its status is 200."""
    error = exchange("shop", dialect="mcp", message="tools/call", tool="order", tool_answer="error")
    assert of_requests(error).failed_calls == 1


def test_tokens_that_no_reply_reports_are_unknown() -> None:
    assert (of_requests(CUT).tokens_in, of_requests(SEARCH).tokens_out) == (None, None)


def test_replayed_reply_costs_no_tokens() -> None:
    replayed = model(4.0, tokens_in=5, tokens_out=5, replay="hit")
    assert (of_requests(FIRST, replayed).tokens_in, of_requests(replayed).tokens_out) == (10, None)


def test_one_attempt_of_one_episode() -> None:
    other = exchange("search", episode="another")
    second = exchange("search", attempt=2)
    assert metrics_of([FIRST, other, second], FIRST.episode).calls == 2
    assert metrics_of([FIRST, other, second], FIRST.episode, 2).calls == 1
