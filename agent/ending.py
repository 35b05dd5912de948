"""What ends a run before its last prompt: a signal, or the end of the launcher; and why, if that is known."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping
from types import FrameType

from windtunnel.core import lifeline

LAUNCHER_ENDED = "the launcher ended"


def end_once(environ: Mapping[str, str]) -> None:
    """From now on the first SIGINT or SIGTERM raises ``KeyboardInterrupt``; later ones do not disturb that.

    Its text is the reason that the launcher left, or that it has ended itself; none: somebody wished it.
    """
    alone = threading.Event()

    def handle(number: int, _frame: FrameType | None) -> None:
        for one in (signal.SIGINT, signal.SIGTERM):
            signal.signal(one, signal.SIG_IGN)
        if number == signal.SIGTERM:
            raise KeyboardInterrupt(LAUNCHER_ENDED if alone.is_set() else lifeline.reason_to_end(environ))
        raise KeyboardInterrupt

    def end_alone() -> None:
        alone.set()
        os.kill(os.getpid(), signal.SIGTERM)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
    lifeline.watch(environ, end_alone)
