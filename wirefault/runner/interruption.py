"""What ends a run before its last prompt: a signal, or the end of the launcher."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from types import FrameType

from wirefault.core.interrupts import INTERRUPTED_LINE
from wirefault.core.processes import reason_to_end, watch_lifeline
from wirefault.subjects.subject import AttemptContext, Subject, SubjectResult, SubjectWrapper

_LAUNCHER_ENDED = "the launcher ended"


class EndedByLauncher(KeyboardInterrupt):
    """The launcher ends the run for the reason that the text names, and says so to the user by itself."""


def interrupt_once(environ: Mapping[str, str]) -> Callable[[], None]:
    """From now on the first SIGINT or SIGTERM raises ``KeyboardInterrupt``, and later ones are ignored.

    It is an ``EndedByLauncher`` if the launcher gives a reason for its SIGTERM. Its text is the reason:
    ``INTERRUPTED_LINE`` if a person interrupted the run. The end of the launcher itself counts as a SIGTERM.

    An exception that a signal raises can get lost: Python ignores it in a destructor or a callback of its
    import system, and other people's code catches it. The function that is returned raises it once more.
    """
    orphaned = threading.Event()
    ends: list[KeyboardInterrupt] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        for ending_signal in (signal.SIGINT, signal.SIGTERM):
            signal.signal(ending_signal, signal.SIG_IGN)
        ends.append(_end_by(number, environ, orphaned=orphaned.is_set()))
        raise ends[0]

    def raise_again() -> None:
        if ends:
            raise ends[0]

    def end_as_orphan() -> None:
        orphaned.set()
        os.kill(os.getpid(), signal.SIGTERM)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
    watch_lifeline(environ, end_as_orphan)
    return raise_again


def _end_by(number: int, environ: Mapping[str, str], *, orphaned: bool) -> KeyboardInterrupt:
    if number == signal.SIGTERM and orphaned:
        return KeyboardInterrupt(_LAUNCHER_ENDED)
    reason = reason_to_end(environ) if number == signal.SIGTERM else ""
    return EndedByLauncher(reason) if reason else KeyboardInterrupt(INTERRUPTED_LINE)


class InterruptibleSubject(SubjectWrapper):
    """A subject around whose work an interruption that got lost in it is raised again."""

    def __init__(self, subject: Subject, raise_again: Callable[[], None]) -> None:
        super().__init__(subject)
        self._raise_again = raise_again

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        self._raise_again()
        result = self.inner(prompt, context)
        self._raise_again()
        return result
