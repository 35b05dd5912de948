"""Tool calls that the agent refuses by itself are in the history, and no request is made of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from agent.middleware import ARGUMENTS_LIMIT, DETAIL_LIMIT, NAME_LIMIT
from tests.agent.support import SEND, WEATHER, Flown, Wire, asks, fly, http, lab_of, reports
from wirefault.history.events import ToolCalled, ToolCallRefused

CUT = {"name": "get_weather", "args": '{"city": "Par', "id": "call_0", "error": "cut off"}


@pytest.fixture
def flown(wire: Callable[..., Wire]) -> Callable[..., Flown]:
    return lambda *replies, **given: fly(lab_of(wire(http(200, {"ok": 1})).address), *replies, **given)


def told_of(flown: Flown) -> list[tuple[Any, ...]]:
    return [(refusal.tool, refusal.why, refusal.detail) for refusal in flown.of(ToolCallRefused)]


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
def test_a_call_that_is_refused_is_recorded_and_not_made(
    call: Any, expected: tuple[str, str], flown: Callable[..., Flown]
) -> None:
    there = flown(asks(call), reports())
    assert told_of(there) == [(call[0], *expected)]
    assert json.loads(there.of(ToolCallRefused)[0].arguments) == call[1]
    assert there.of(ToolCalled) == [] and there.told[0].status == "error"


def test_arguments_that_are_no_json_are_recorded_as_they_came(flown: Callable[..., Flown]) -> None:
    there = flown(AIMessage("", invalid_tool_calls=[CUT]))
    [refused] = there.of(ToolCallRefused)
    assert (refused.arguments, refused.why, refused.detail) == (CUT["args"], "malformed", "cut off")
    assert there.result.ended_by == "empty"


def test_it_names_the_place_in_the_reply(flown: Callable[..., Flown]) -> None:
    there = flown(asks(WEATHER), asks(SEND, ("no_such_tool", {})), reports(), attempt=2)
    [refused] = there.of(ToolCallRefused)
    assert (refused.episode, refused.attempt, refused.reply, refused.index) == ("001", 2, 2, 1)
    assert len(there.of(ToolCalled)) == 2


def test_a_report_that_is_none_is_recorded(flown: Callable[..., Flown]) -> None:
    there = flown(asks(("Report", {"status": "well"})), reports())
    [(tool, why, detail)] = told_of(there)
    assert (tool, why) == ("Report", "bad_arguments") and "status" in detail
    assert there.result.ended_by == "report"


def test_what_the_model_gave_is_cut_off_where_it_is_long(flown: Callable[..., Flown]) -> None:
    there = flown(asks(("t" * 5000, {"a": "b" * 5000})), asks(("get_weather", {"c" * 5000: 1})), reports())
    for refusal in there.of(ToolCallRefused):
        assert len(refusal.tool) <= NAME_LIMIT and len(refusal.arguments) == ARGUMENTS_LIMIT
        assert len(refusal.detail) <= DETAIL_LIMIT


def test_calls_that_are_made_are_not_in_it(flown: Callable[..., Flown]) -> None:
    assert flown(asks(SEND, WEATHER), reports()).of(ToolCallRefused) == []
