"""The user's further turns, made by a function of theirs from the conversation so far."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import redirect_stdout
from functools import cache
from queue import SimpleQueue
from threading import Thread
from typing import NoReturn

from wirefault.core.user_functions import load_function
from wirefault.judging.prompt_turns import NextTurn
from wirefault.subjects.subject import LabFailed, MakeTurn, Said

_LONGEST_REASON = 300


class TurnMakers:
    """Those of one run: each function is loaded once, so that its module may keep what it needs."""

    def __init__(self, load: Callable[[str], Callable[..., object]] = load_function) -> None:
        self._load = cache(load)
        self._worker = _Worker()
        self._hanging: dict[str, Future[object]] = {}

    def of(self, next_turn: NextTurn | None, seconds: float) -> MakeTurn | None:
        """What makes the turns of one prompt; None where all are known beforehand.

        Calling it raises ``LabFailed`` for what the function raises, or if it takes longer than that for a
        turn, since the agent is not to blame.
        """
        if next_turn is None:
            return None

        def make_turn(conversation: list[Said]) -> str | None:
            if len(conversation) >= 2 * next_turn.most_turns:  # what the user said, and the agent
                return None
            # a list of its own, so that nothing the function does there changes what was said
            text = self._made(next_turn, [said.copy() for said in conversation], seconds)
            if text is not None and (not isinstance(text, str) or not text.strip()):
                _fail(next_turn, f"returned {text!r:.80}, where a text or None is wanted")
            return text.strip() if text else None

        return make_turn

    def _made(self, next_turn: NextTurn, conversation: list[Said], seconds: float) -> object:
        """What the function returns. One that hangs is left to itself, since nothing can end a thread."""
        name = next_turn.function
        if name in self._hanging and not self._hanging[name].done():
            _fail(next_turn, "still hangs in an earlier turn, and is not asked again")
        with redirect_stdout(sys.stderr):  # the standard output may be for a JSON object alone
            call = self._worker.begin(lambda: self._load(name)(conversation))
            wait([call], seconds)
        if not call.done():
            self._hanging[name], self._worker = call, _Worker()
            _fail(next_turn, f"has not returned within {seconds:g} s (ATTEMPT_TIME)")
        try:
            return call.result()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a user's function may do anything
            _fail(next_turn, f"raised {type(error).__name__}: {error}")


class _Worker:
    """Makes calls in one thread, to which a user's module may tie what it keeps, such as a database.

    An executor of the standard library would not do: a process ends only after all of its calls.
    """

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Future[object], Callable[[], object]]] = SimpleQueue()
        self._thread: Thread | None = None

    def begin(self, function: Callable[[], object]) -> Future[object]:
        call: Future[object] = Future()
        self._calls.put((call, function))
        if self._thread is None:  # most runs have no turns to be made
            self._thread = Thread(target=self._work, name="next_turn", daemon=True)
            self._thread.start()
        return call

    def _work(self) -> None:
        while True:
            call, function = self._calls.get()
            try:
                call.set_result(function())
            except (Exception, SystemExit) as error:  # noqa: BLE001 - it is raised where the result is asked
                call.set_exception(error)


def _fail(next_turn: NextTurn, problem: str) -> NoReturn:
    raise LabFailed(f"next_turn: {next_turn.function} {problem}"[:_LONGEST_REASON]) from None
