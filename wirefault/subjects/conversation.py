"""The turns of an attempt, for subjects that can be asked more than once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from wirefault.subjects.report_text import result_of
from wirefault.subjects.subject import AttemptContext, Said, SubjectResult, limit_reached


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
    now: Callable[[], float] = time.time,
) -> SubjectResult:
    """Asks turn by turn; the result is that of the last one, with the answers to all.

    The time that a turn takes to be made is the user's, and not part of the attempt's limit.
    """
    limit, begun = context.settings.attempt_time, clock()
    conversation: list[Said] = []
    ends: list[float] = []
    result, answered = SubjectResult("empty"), begun
    try:
        for number, text in enumerate(_turns(prompt, context, conversation), start=1):
            begun += clock() - answered
            seconds = begun + limit - clock()
            if seconds <= 0:
                raise AttemptOver(limit_reached(limit))
            if number > 1:
                context.begin_turn(number, text)
            answer = turn(text, number, seconds)
            answered = clock()
            shown = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
            conversation += [{"role": "user", "content": text}, {"role": "assistant", "content": shown}]
            ends.append(now())
            result = result_of(answer)
    except AttemptOver as over:
        result = over.result
    if not context.turns and context.make_turn is None:
        return result
    answers = tuple(said["content"] for said in conversation[1::2])
    return replace(result, answers=answers, turn_ends=tuple(ends))


def _turns(prompt: str, context: AttemptContext, conversation: list[Said]) -> Iterator[str]:
    """What the user says; whenever more is asked for, ``conversation`` holds what was said until then."""
    yield from context.turns or (prompt,)
    while context.make_turn is not None and (text := context.make_turn(conversation)) is not None:
        yield text


def conversation_id(context: AttemptContext) -> str:
    """Names the conversation of one attempt, so that the subject mixes it up with no other."""
    identity = context.identity
    return f"{identity.run}-{identity.episode}-{identity.attempt}"
