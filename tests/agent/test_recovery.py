"""Strategies of RECOVERY, through the real agent over real connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.agent.support import SEND, Answer, AttemptRun, Wire, asks, failed, http, lab_of, reports, run_agent
from wirefault.history.events import RecoveryTried, ToolCalled

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
