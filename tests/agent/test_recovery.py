"""Strategies of RECOVERY, through the real agent over real connections."""

from __future__ import annotations

import time
from collections.abc import Callable
from socket import socket
from threading import Event
from typing import Any

import pytest

from tests.agent.support import (
    SEND,
    WEATHER,
    Answer,
    AttemptRun,
    Wire,
    asks,
    failed,
    http,
    lab_of,
    reports,
    reset,
    run_agent,
)
from tests.support import PATIENCE_S
from wirefault.history.events import RecoveryTried, ToolCalled, ToolTry

GOOD = http(200, {"sent": True})
Call = Callable[..., tuple[AttemptRun, Wire]]


@pytest.fixture
def call(wire: Callable[..., Wire]) -> Call:
    """Lets the agent send a message, by a server with these answers and under this RECOVERY."""

    def make(recovery: str, *answers: Answer, **options: Any) -> tuple[AttemptRun, Wire]:
        server = wire(*answers)
        outcome = run_agent(lab_of(server.address), asks(SEND), reports(), recovery=recovery, **options)
        return outcome, server

    return make


@pytest.mark.parametrize(
    ("backoff", "slept"), [("constant", [0.1, 0.1, 0.1]), ("exponential", [0.1, 0.2, 0.3])]
)
def test_retry_waits_by_backoff(call: Call, backoff: str, slept: list[float]) -> None:
    text = f"retry(tries=4, backoff={backoff}, base=0.1, longest=0.3)"
    outcome, server = call(text, failed(503), failed(503), failed(503), GOOD)
    assert outcome.slept == pytest.approx(slept) and len(server.received) == 4
    assert [(event.number, event.success) for event in outcome.of(RecoveryTried)] == [
        (1, False),
        (2, False),
        (3, True),
    ]


def test_full_jitter_waits_less_than_its_bound(call: Call) -> None:
    outcome, _ = call("retry(tries=3, base=0.1)", failed(503), failed(503), GOOD)
    first, second = outcome.slept
    assert 0 <= first <= 0.1 and 0 <= second <= 0.2


def test_retry_after_is_honoured_unless_switched_off(call: Call) -> None:
    later = http(429, {}, Retry_After="0.7")
    assert call("retry", later, GOOD)[0].slept == [0.7]
    assert call("retry(retry_after=off, backoff=constant)", later, GOOD)[0].slept == [0.05]
    assert call("retry", http(429, {}, Retry_After="1.5"), GOOD)[0].slept == []


def test_retry_budget_is_shared_by_calls(wire: Callable[..., Wire]) -> None:
    server = wire(failed(503))
    replies = asks(SEND), asks(SEND), reports()
    outcome = run_agent(lab_of(server.address), *replies, recovery="retry(tries=3, budget=3)")
    assert [made.tries for made in outcome.of(ToolCalled)] == [3, 2]


@pytest.mark.parametrize(
    ("recovery", "keys"), [("none", 0), ("retry", 0), ("retry, keys", 1), ("retry, keys(by=none)", 0)]
)
def test_only_named_strategies_act(call: Call, recovery: str, keys: int) -> None:
    outcome, server = call(recovery, failed(500), tool_limit=5, fallback="direct")
    assert len(server.received) == (1 if recovery == "none" else 3)
    assert len({request.key for request in server.received} - {None}) == keys
    assert {event.preserved for event in outcome.of(RecoveryTried)} <= {"idempotency key" * keys}


def test_failed_read_after_a_lost_reply_ends_the_call(call: Call) -> None:
    outcome, server = call("verify, retry(base=0.01)", reset, failed(503))
    assert [request.method for request in server.received] == ["POST", "GET"]
    [made] = outcome.of(ToolCalled)
    assert (made.ok, made.error, made.side_effect) == (False, "unverified_http_503", "unknown")


def test_hedged_read_fails_with_the_first_failure(wire: Callable[..., Wire]) -> None:
    has_second = Event()

    def first(connection: socket) -> None:
        has_second.wait(PATIENCE_S)
        connection.sendall(failed(503))

    def second(connection: socket) -> None:
        connection.sendall(failed(500))
        has_second.set()

    server = wire(first, second)
    outcome = run_agent(lab_of(server.address), asks(WEATHER), reports(), recovery="hedge(after=0.01)")
    errors = {seen.try_: seen.error for seen in outcome.of(ToolTry)}
    assert sorted(errors) == [1, 2] and outcome.of(ToolCalled)[0].error == errors[1]
    assert set(errors.values()) == {"http_500", "http_503"}  # on a busy machine the second arrives first


def test_fast_read_is_not_hedged(wire: Callable[..., Wire]) -> None:
    server = wire(http(200, {"ok": 1}))
    recovery = "hedge(after=60)"
    outcome = run_agent(lab_of(server.address), asks(WEATHER), reports(), recovery=recovery, keep_alive=True)
    assert len(server.received) == 1 and outcome.of(RecoveryTried) == []


def test_equal_calls_of_one_reply_are_one_loop(wire: Callable[..., Wire]) -> None:
    server = wire(http(200, {"ok": 1}))
    outcome = run_agent(
        lab_of(server.address), asks(WEATHER, WEATHER, WEATHER), reports(), recovery="loop_breaker(repeats=2)"
    )
    assert len(server.received) == 2
    assert [made.error for made in outcome.of(ToolCalled)].count("loop") == 1


def test_request_carries_its_deadline(wire: Callable[..., Wire]) -> None:
    server = wire(http(200, {"ok": 1}))
    before = time.time() * 1000
    run_agent(lab_of(server.address), asks(WEATHER), reports(), recovery="deadline(seconds=600)")
    run_agent(lab_of(server.address), asks(WEATHER), reports(), recovery="retry")
    first, second = (request.headers.get("x-request-deadline") for request in server.received)
    assert second is None and first is not None and int(first) > before
