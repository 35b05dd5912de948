"""What ends a run before its last prompt: a signal, or the end of the launcher."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from windtunnel.core import lifeline
from windtunnel.subjects.subject import AttemptContext, Subject, SubjectResult

_LAUNCHER_ENDED = "the launcher ended"


def interrupt_once(environ: Mapping[str, str]) -> Callable[[], None]:
    """From now on the first SIGINT or SIGTERM raises ``KeyboardInterrupt``, and later ones are ignored.

    The exception's text says why the launcher ended this process, or that the launcher itself is gone. It
    is empty when a person interrupted the run. The end of the launcher's lifeline counts as a SIGTERM.

    An exception that a signal raises can get lost: Python ignores it in a destructor or a callback of its
    import system, and other people's code catches it. The function that is returned raises it once more.
    """
    orphaned = threading.Event()
    reasons: list[str] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        for ending_signal in (signal.SIGINT, signal.SIGTERM):
            signal.signal(ending_signal, signal.SIG_IGN)
        told = number == signal.SIGTERM
        reasons.append((_LAUNCHER_ENDED if orphaned.is_set() else lifeline.reason_to_end(environ)) * told)
        raise KeyboardInterrupt(reasons[0])

    def raise_again() -> None:
        if reasons:
            raise KeyboardInterrupt(reasons[0])

    def end_as_orphan() -> None:
        orphaned.set()
        os.kill(os.getpid(), signal.SIGTERM)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
    lifeline.watch(environ, end_as_orphan)
    return raise_again


class InterruptibleSubject:
    """A subject around whose work an interruption that got lost in it is raised again."""

    def __init__(self, subject: Subject, raise_again: Callable[[], None]) -> None:
        self._subject = subject
        self._raise_again = raise_again

    def __call__(self, prompt: str, context: AttemptContext) -> SubjectResult:
        self._raise_again()
        result = self._subject(prompt, context)
        self._raise_again()
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._subject, name)
