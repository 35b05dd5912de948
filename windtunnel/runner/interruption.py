"""What ends a run before its last prompt: a signal, or the end of the launcher."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from types import FrameType

from windtunnel.core import lifeline

_LAUNCHER_ENDED = "the launcher ended"


def interrupt_once(environ: Mapping[str, str]) -> None:
    """From now on the first SIGINT or SIGTERM raises ``KeyboardInterrupt``, and later ones are ignored.

    The exception's text says why the launcher ended this process, or that the launcher itself is gone. It
    is empty when a person interrupted the run. The end of the launcher's lifeline counts as a SIGTERM.
    """
    orphaned = threading.Event()

    def handle(number: int, _frame: FrameType | None) -> None:
        for ending_signal in (signal.SIGINT, signal.SIGTERM):
            signal.signal(ending_signal, signal.SIG_IGN)
        if number == signal.SIGTERM:
            raise KeyboardInterrupt(_LAUNCHER_ENDED if orphaned.is_set() else lifeline.reason_to_end(environ))
        raise KeyboardInterrupt

    def end_as_orphan() -> None:
        orphaned.set()
        os.kill(os.getpid(), signal.SIGTERM)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
    lifeline.watch(environ, end_as_orphan)
