"""Assertions on single turns: each sees its own answer, requests and time, and no turn is made up."""

from __future__ import annotations

import pytest

from tests.experiments.assertions.views import conversation, model_request, result, view
from tests.judging.oracle.histories import called, ended
from tests.support import replace
from wirefault.experiments.assertions.registry import AssertionEntry
from wirefault.experiments.episode_view import EpisodeView

TURNS = ("Where?", "And then?")
# from 103 to 105 the first turn, to 108 the second; a request in the first, two in the second
WHOLE = view(
    *(model_request(at) for at in (103.5, 105.5, 106.0)),
    replace(called(tool="find"), t=104.0),
    conversation(105.0, 108.0, answers=["Rome", "Paris"]),
    turns=TURNS,
)
BROKEN = view(model_request(103.5), conversation(105.0, answers=["Rome"]), turns=TURNS)
BROKEN_AT_ONCE = view(model_request(103.5), conversation(answers=[]), turns=TURNS)
ALL_AT_ONCE = view(model_request(), ended(ended_by="text", response="Rome and Paris"), turns=TURNS)
ONE_TURN = view(model_request(), ended(ended_by="text", response="Rome"))


@pytest.mark.parametrize(
    ("entry", "of", "passed"),
    [
        ({"answer_contains": {"text": "Rome", "turn": 1}}, WHOLE, True),
        ({"answer_contains": {"text": "Rome", "turn": 2}}, WHOLE, False),
        ({"answer_contains": {"text": "Rome", "turn": "each"}}, WHOLE, False),
        ({"answer_contains": {"text": "Rome", "turn": 1}}, ALL_AT_ONCE, None),
        ({"answer_contains": {"text": "Rome", "turn": 1}}, ONE_TURN, True),
        ({"answer_contains": {"text": "Rome", "turn": 2}}, ONE_TURN, None),
        ({"completes": {"turn": "each"}}, WHOLE, True),
        ({"completes": {"turn": "each"}}, BROKEN, False),
        ({"completes": {"turn": 1}}, BROKEN, True),
        ({"statement": {"text": "seconds <= 2s", "turn": 1}}, WHOLE, True),
        ({"statement": {"text": "seconds <= 2s", "turn": 2}}, WHOLE, False),
        ({"statement": {"text": "model_calls <= 1", "turn": 1}}, WHOLE, True),
        ({"statement": {"text": "model_calls <= 1", "turn": 2}}, WHOLE, False),
        ({"statement": {"text": "model_calls <= 1", "turn": "each"}}, WHOLE, False),
        ({"statement": {"text": "model_calls <= 9", "turn": 2}}, BROKEN_AT_ONCE, None),
        ({"statement": {"text": "model_calls <= 9", "turn": 1}}, ALL_AT_ONCE, None),
        ({"statement": {"text": "tokens <= 15", "turn": 1}}, WHOLE, True),
        ({"statement": {"text": "tokens <= 15", "turn": 2}}, WHOLE, False),
        ({"tool_called": {"tool": "find", "turn": 1}}, WHOLE, True),
        ({"tool_called": {"tool": "find", "turn": 2}}, WHOLE, False),
        ({"error_expected": {"pattern": ".", "turn": 1}}, BROKEN, False),
    ],
)
def test_turn_is_judged_by_its_own_events(
    entry: AssertionEntry, of: EpisodeView, passed: bool | None
) -> None:
    checked = result(entry, of)
    assert checked.passed is passed, checked
    assert passed is not None or checked.message


def test_deciding_turns_are_named() -> None:
    checked = result({"statement": {"text": "model_calls <= 1", "turn": "each"}}, WHOLE)
    assert (checked.measured, len(checked.evidence)) == ("turn 2: model_calls 2", 2)


def test_history_without_turn_times_cannot_separate_turns() -> None:
    old = view(model_request(), replace(conversation(answers=["Rome", "Paris"]), turn_ends=None), turns=TURNS)
    assert result({"answer_contains": {"text": "Paris", "turn": 2}}, old).passed is True
    checked = result({"statement": {"text": "model_calls <= 9", "turn": 1}}, old)
    assert (checked.passed, checked.message) == (None, "when its turns ended is not in the history")
