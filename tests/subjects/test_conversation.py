"""The turns of an attempt, those that are known beforehand and those that are made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.subjects.wired import Wired
from wirefault.subjects.results import converse
from wirefault.subjects.subject import AttemptContext, ChatMessage


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_time_that_a_turn_takes_to_be_made_is_not_the_agents(tmp_path: Path) -> None:
    clock, left, begun = Clock(), list[float](), list[tuple[int, str]]()

    def make_turn(conversation: list[ChatMessage]) -> str | None:
        clock.now += 100
        return None if len(conversation) == 6 else f"more than {conversation[-1]['content']}"

    def turn(text: str, number: int, seconds: float) -> object:
        left.append(seconds)
        clock.now += 1
        return {"told": number}

    context: AttemptContext = Wired(tmp_path).context(attempt_time=10)
    context = replace(context, make_turn=make_turn, begin_turn=lambda *given: begun.append(given))
    result = converse("Hello", context, turn, clock)
    assert left == [10, 9, 8]
    assert begun == [(2, 'more than {"told": 1}'), (3, 'more than {"told": 2}')]
    assert result.answers == ('{"told": 1}', '{"told": 2}', '{"told": 3}')
