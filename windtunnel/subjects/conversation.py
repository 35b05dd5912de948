"""The turns of an attempt, for subjects that can be asked more than once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace

from windtunnel.subjects.report_text import result_of
from windtunnel.subjects.subject import AttemptContext, SubjectResult, limit_reached


class AttemptOver(Exception):
    """The subject did not answer a turn: ``result`` is the attempt's."""

    def __init__(self, result: SubjectResult) -> None:
        super().__init__(result.error)
        self.result = result


# Asks the subject once: what is said, its number from 1, and the seconds that are left. Returns the answer,
# a text or a JSON value. Raises ``AttemptOver``.
Turn = Callable[[str, int, float], object]


def converse(
    prompt: str,
    context: AttemptContext,
    turn: Turn,
    clock: Callable[[], float] = time.monotonic,
) -> SubjectResult:
    """Asks turn by turn; the result is that of the last one, with the answers to all."""
    limit, begun = context.settings.attempt_time, clock()
    turns = context.turns or (prompt,)
    answers: list[str] = []
    result = SubjectResult("empty")
    try:
        for number, text in enumerate(turns, start=1):
            seconds = begun + limit - clock()
            if seconds <= 0:
                raise AttemptOver(limit_reached(limit))
            answer = turn(text, number, seconds)
            answers.append(answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False))
            result = result_of(answer)
    except AttemptOver as over:
        result = over.result
    return replace(result, answers=tuple(answers)) if len(turns) > 1 else result


def conversation_id(context: AttemptContext) -> str:
    """Names the conversation of one attempt, so that the subject mixes it up with no other."""
    identity = context.identity
    return f"{identity.run}-{identity.episode}-{identity.attempt}"
