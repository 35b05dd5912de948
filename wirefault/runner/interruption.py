"""End a run early, by a signal or by the end of the launcher."""

from __future__ import annotations

import _thread
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from types import FrameType

from wirefault.core.interrupts import INTERRUPTED_LINE, KILLED_LINE, Interrupted, interrupting_signal
from wirefault.core.processes import reason_to_end, watch_lifeline
from wirefault.subjects.subject import AttemptContext, Subject, SubjectResult, SubjectWrapper

_IMPORTER = "<frozen importlib._bootstrap>"
_IMPORT_POLL_S, _IMPORT_BOUND_S = 0.05, 10.0


class EndedByLauncher(Interrupted):
    """The launcher ends the run and tells the user why; the text is the reason."""


def interrupt_once(environ: Mapping[str, str]) -> Callable[[], None]:
    """Raise ``KeyboardInterrupt`` at the first SIGINT or SIGTERM, and ignore later ones.

    It is an ``EndedByLauncher`` if the launcher gave a reason for its SIGTERM. Its text is the reason, and
    ``INTERRUPTED_LINE`` if a person interrupted the run. The end of the launcher counts as a SIGTERM.

    An exception from a signal handler can get lost: Python ignores it in destructors and import callbacks,
    and other code may catch it. The returned function raises it again. It waits for the end of an import,
    since a module that is half imported cannot be imported again.
    """
    orphaned = threading.Event()
    ends: list[KeyboardInterrupt] = []
    first: list[float] = []

    def handle(number: int, frame: FrameType | None) -> None:
        first.append(time.monotonic())
        if _is_importing(frame) and first[-1] - first[0] < _IMPORT_BOUND_S:
            # ``threading.Thread`` takes a lock that the interrupted code may hold
            _thread.start_new_thread(_send_later, (number,))
            return
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


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None and frame.f_code.co_filename != _IMPORTER:
        frame = frame.f_back
    return frame is not None


def _send_later(number: int) -> None:
    time.sleep(_IMPORT_POLL_S)
    os.kill(os.getpid(), number)


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
