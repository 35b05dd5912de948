"""End a run early, by a signal or by the end of the launcher."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from types import FrameType

from wirefault.core.interrupts import INTERRUPTED_LINE, KILLED_LINE, Interrupted, interrupting_signal
from wirefault.core.processes import reason_to_end, watch_lifeline
from wirefault.subjects.subject import AttemptContext, Subject, SubjectResult, SubjectWrapper


class EndedByLauncher(Interrupted):
    """The launcher ends the run and tells the user why; the text is the reason."""


def interrupt_once(environ: Mapping[str, str]) -> Callable[[], None]:
    """Raise ``KeyboardInterrupt`` at the first SIGINT or SIGTERM, and ignore later ones.

    It is an ``EndedByLauncher`` if the launcher gave a reason for its SIGTERM. Its text is the reason, and
    ``INTERRUPTED_LINE`` if a person interrupted the run. The end of the launcher counts as a SIGTERM.

    An exception from a signal handler can get lost: Python ignores it in destructors and import callbacks,
    and other code may catch it. The returned function raises it again.
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
        return Interrupted(KILLED_LINE)
    reason = reason_to_end(environ) if number == signal.SIGTERM else ""
    if not reason:
        return Interrupted(INTERRUPTED_LINE, number)
    if passed_on := interrupting_signal(reason):
        return EndedByLauncher(INTERRUPTED_LINE, passed_on)
    return EndedByLauncher(reason)  # the lab has failed


class InterruptibleSubject(SubjectWrapper):
    """A subject that raises a lost interruption again before and after each attempt."""

    def __init__(self, subject: Subject, raise_again: Callable[[], None]) -> None:
        super().__init__(subject)
        self._raise_again = raise_again

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        self._raise_again()
        result = self.inner(prompt, context)
        self._raise_again()
        return result
