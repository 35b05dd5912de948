"""Handoff: a person, or a rule in place of one, decides whether a failed call is made again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.handoff import HandoffDesk
from agent.loop import Agent
from tests.agent.support import (
    SEND,
    WEATHER,
    AttemptRun,
    Clock,
    Script,
    Wire,
    asks,
    context_in,
    failed,
    http,
    lab_of,
    reports,
    reset,
)
from wirefault.core.errors import InputError
from wirefault.history.events import Event, RecoveryTried
from wirefault.recovery.approvals import load_approvals
from wirefault.recovery.strategies import parse_recovery
from wirefault.state.handoffs import HandoffQueue

SENT = http(201, {"id": 1, "status": "sent"})
GOOD = http(200, {"main": {"temp": 8}})


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., AttemptRun]:
    def run(server: Wire, call: Any, recovery: str, **options: Any) -> AttemptRun:
        clock, model, events = Clock(), Script(replies=[asks(call), reports()]), list[Event]()
        strategies = parse_recovery(recovery)
        assert strategies.handoff
        desk = HandoffDesk(HandoffQueue(tmp_path / "handoffs.db"), load_approvals(strategies.handoff.answers))
        agent = Agent(model, "x", sleep=clock.sleep, clock=clock, recovery=strategies, desk=desk)
        result = agent("the prompt", context_in(lab_of(server.address), events, **options))
        return AttemptRun(result, events, model, clock.slept)

    return run


def recovered(attempt: AttemptRun) -> list[tuple[bool, str]]:
    tried: list[RecoveryTried] = attempt.of(RecoveryTried)
    return [(each.success, each.detail) for each in tried if each.strategy == "handoff"]


def test_approved_repeat_carries_the_lost_write_out(wire, run) -> None:
    server = wire(reset, SENT)
    attempt = run(server, SEND, "keys, handoff(answers=approve)")
    assert len(server.received) == 2
    keys = {request.headers["idempotency-key"] for request in server.received}
    assert len(keys) == 1  # so that the service does not carry it out twice
    assert json.loads(attempt.tool_results[0].text)["status"] == "sent"
    assert recovered(attempt) == [(True, "unknown_effect: approved by rule 1 of RECOVERY")]


def test_denial_prevents_second_write(wire, run) -> None:
    server = wire(reset, SENT)
    attempt = run(server, SEND, "handoff(answers=deny)")
    assert len(server.received) == 1
    error = json.loads(attempt.tool_results[0].text)["error"]
    assert (error["code"], error["side_effect"]) == ("denied", "unknown")


def test_careless_approver_doubles_write(wire, run) -> None:
    carried_out_but_reply_lost = reset
    server = wire(carried_out_but_reply_lost, SENT)
    run(server, SEND, "handoff(answers=approve)")
    assert [request.headers.get("idempotency-key") for request in server.received] == [None, None]


@pytest.mark.parametrize(
    ("on_timeout", "call", "requests", "code"),
    [
        ("refuse", SEND, 1, "denied"),
        ("proceed", SEND, 2, None),
        ("degrade", SEND, 1, "handed_over"),
        ("refuse", WEATHER, 1, "denied"),
        ("degrade", WEATHER, 1, None),
    ],
)
def test_answer_that_never_comes_ends_as_set(wire, run, on_timeout, call, requests, code) -> None:
    server = wire(failed(503), SENT)
    attempt = run(server, call, f"handoff(wait=2, on_timeout={on_timeout}, answers=never)")
    assert len(server.received) == requests
    result = json.loads(attempt.tool_results[0].text)
    assert result.get("error", {}).get("code") == code
    assert result.get("degraded", False) == (on_timeout == "degrade" and call is WEATHER)
    [(_, detail)] = recovered(attempt)
    assert detail.endswith(f"no answer in 2 s, {on_timeout}") and sum(attempt.slept) == pytest.approx(2)


def test_wait_can_use_up_the_attempts_time(wire, run) -> None:
    attempt = run(wire(reset), SEND, "handoff(wait=60, answers=never)", attempt_time=5)
    assert attempt.result.ended_by == "limit" and "ATTEMPT_TIME" in str(attempt.result.error)


def test_refused_request_is_not_handed_over(wire, run) -> None:
    attempt = run(wire(failed(404, "unknown city")), WEATHER, "handoff(answers=approve)")
    assert recovered(attempt) == []


def test_first_rule_that_fits_decides(wire, run, tmp_path) -> None:
    rules = tmp_path / "answers.yaml"
    rules.write_text(
        "answers:\n  - {tool: send_message, reason: unknown_effect, answer: deny, after: 0.5}\n"
        "  - {answer: approve}\n"
    )
    attempt = run(wire(reset, SENT), SEND, f"handoff(answers={rules})")
    assert recovered(attempt) == [(False, f"unknown_effect: denied by rule 1 of {rules}")]
    assert sum(attempt.slept) >= 0.5
    attempt = run(wire(failed(503), GOOD), WEATHER, f"handoff(answers={rules})")
    assert recovered(attempt) == [(True, f"exhausted: approved by rule 2 of {rules}")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("answers: [{answer: perhaps}]", "rule 1: answer"),
        ("answers: [{answer: deny, tol: x}]", "rule 1: tol"),
        ("- deny", "a list of rules under `answers`"),
        ("answers: [", "answers.yaml"),
    ],
)
def test_invalid_rules_are_refused(tmp_path, text, message) -> None:
    path = tmp_path / "answers.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        load_approvals(str(path))
    with pytest.raises(InputError, match="cannot read the file"):
        load_approvals(str(tmp_path / "missing.yaml"))
