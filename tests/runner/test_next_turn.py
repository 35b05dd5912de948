"""Turns that a user's function generates from the conversation."""

from __future__ import annotations

import sys
import threading

import pytest

from tests.support import PATIENCE_S, until
from wirefault.runner.attempts import TurnMakers
from wirefault.subjects.subject import ChatMessage, LabFailed, MakeTurn
from wirefault.wiring.prompts import NextTurn

ONE_TURN: list[ChatMessage] = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Yes?"}]


def maker(function: object, max_turns: int = 10) -> MakeTurn:
    makers = TurnMakers(lambda _: function)  # type: ignore[arg-type, return-value]
    make_turn = makers.of(NextTurn("user:next_turn", max_turns), PATIENCE_S)
    assert make_turn is not None
    return make_turn


def test_turns_are_generated_until_none_or_limit() -> None:
    made = maker(lambda conversation: f" {conversation[-1]['content']} Why? ", max_turns=2)
    assert made(ONE_TURN) == "Yes? Why?" and made(ONE_TURN * 2) is None
    assert maker(lambda _: None)(ONE_TURN) is None
    assert TurnMakers().of(None, PATIENCE_S) is None


def test_turn_function_cannot_change_conversation() -> None:
    turns = [turn.copy() for turn in ONE_TURN]
    assert maker(lambda conversation: conversation.pop().clear())(turns) is None
    assert turns == ONE_TURN


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda _: [][1], "user:next_turn raised IndexError: list index out of range"),
        (lambda _: 3, "returned 3, where a text or None is wanted"),
        (lambda _: " ", "returned ' ', where"),
    ],
)
def test_turn_function_failure_is_not_agent_failure(function: object, problem: str) -> None:
    with pytest.raises(LabFailed, match=problem):
        maker(function)(ONE_TURN)


def test_hanging_turn_function_is_called_once() -> None:
    go_on = threading.Event()
    conversations: list[object] = []

    def hangs(conversation: object) -> str:
        conversations.append(conversation)
        go_on.wait(PATIENCE_S)
        return "Why?"

    makers, before = TurnMakers(lambda _: hangs), sys.stdout
    hasty, patient = (makers.of(NextTurn("user:next_turn", 10), seconds) for seconds in (0.01, PATIENCE_S))
    assert hasty is not None and patient is not None
    with pytest.raises(LabFailed, match=r"has not returned within 0\.01 s \(ATTEMPT_TIME\)"):
        hasty(ONE_TURN)
    with pytest.raises(LabFailed, match="still hangs in an earlier turn"):
        patient(ONE_TURN)
    assert len(conversations) == 1 and sys.stdout is before
    go_on.set()
    assert until(lambda: _answer(patient)) == "Why?"


def _answer(make_turn: MakeTurn) -> str | None:
    """The next turn, None while the function hangs."""
    try:
        return make_turn(ONE_TURN)
    except LabFailed:
        return None


def test_module_may_keep_thread_local_state() -> None:
    threads = set[int]()

    def next_turn(_: object) -> str:
        threads.add(threading.get_ident())
        return "Why?"

    make_turn = maker(next_turn)
    assert make_turn(ONE_TURN) == make_turn(ONE_TURN) and len(threads) == 1
