"""Tool calls that the agent itself refuses are in the history, and cause no request."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from agent.middleware import ARGUMENTS_LIMIT, DETAIL_LIMIT, NAME_LIMIT
from tests.agent.support import SEND, WEATHER, AttemptRun, Wire, asks, http, lab_of, reports, run_agent
from wirefault.history.events import ToolCalled, ToolCallRefused

CUT = {"name": "get_weather", "args": '{"city": "Par', "id": "call_0", "error": "cut off"}


@pytest.fixture
def outcome(wire: Callable[..., Wire]) -> Callable[..., AttemptRun]:
    return lambda *replies, **options: run_agent(
        lab_of(wire(http(200, {"ok": 1})).address), *replies, **options
    )


def told_of(outcome: AttemptRun) -> list[tuple[Any, ...]]:
    return [(refusal.tool, refusal.why, refusal.detail) for refusal in outcome.of(ToolCallRefused)]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (("get_wether", {"city": "Paris"}), ("unknown_tool", "")),
        (("get_weather", {}), ("bad_arguments", "city: Field required")),
        (("get_weather", {"city": 5}), ("bad_arguments", "city: Input should be a valid string")),
        (
            ("get_weather", {"city": "Paris", "x": 1}),
            ("bad_arguments", "x: Extra inputs are not permitted"),
        ),
    ],
)
def test_refused_call_is_recorded_and_not_executed(
    call: Any, expected: tuple[str, str], outcome: Callable[..., AttemptRun]
) -> None:
    there = outcome(asks(call), reports())
    assert told_of(there) == [(call[0], *expected)]
    assert json.loads(there.of(ToolCallRefused)[0].arguments) == call[1]
    assert there.of(ToolCalled) == [] and there.tool_results[0].status == "error"


def test_malformed_arguments_are_recorded_verbatim(outcome: Callable[..., AttemptRun]) -> None:
    there = outcome(AIMessage("", invalid_tool_calls=[CUT]))
    [refused] = there.of(ToolCallRefused)
    assert (refused.arguments, refused.why, refused.detail) == (CUT["args"], "malformed", "cut off")
    assert there.result.ended_by == "empty"


def test_refusal_keeps_position_in_reply(outcome: Callable[..., AttemptRun]) -> None:
    there = outcome(asks(WEATHER), asks(SEND, ("no_such_tool", {})), reports(), attempt=2)
    [refused] = there.of(ToolCallRefused)
    assert (refused.episode, refused.attempt, refused.reply, refused.index) == ("001", 2, 2, 1)
    assert len(there.of(ToolCalled)) == 2


def test_invalid_report_is_recorded(outcome: Callable[..., AttemptRun]) -> None:
    there = outcome(asks(("Report", {"status": "well"})), reports())
    [(tool, why, detail)] = told_of(there)
    assert (tool, why) == ("Report", "bad_arguments") and "status" in detail
    assert there.result.ended_by == "report"


def test_long_fields_are_cut(outcome: Callable[..., AttemptRun]) -> None:
    there = outcome(asks(("t" * 5000, {"a": "b" * 5000})), asks(("get_weather", {"c" * 5000: 1})), reports())
    for refusal in there.of(ToolCallRefused):
        assert len(refusal.tool) <= NAME_LIMIT and len(refusal.arguments) == ARGUMENTS_LIMIT
        assert len(refusal.detail) <= DETAIL_LIMIT


def test_valid_calls_are_not_recorded(outcome: Callable[..., AttemptRun]) -> None:
    assert outcome(asks(SEND, WEATHER), reports()).of(ToolCallRefused) == []
