"""A pipe from the launcher to each of its processes: when the launcher dies, however, they end too."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress

LIFELINE_VARIABLE = "WINDTUNNEL_LIFELINE"


def watch(environ: Mapping[str, str], on_close: Callable[[], None]) -> None:
    """Calls ``on_close`` from a daemon thread once the launcher's end of the pipe closes.

    ``WINDTUNNEL_LIFELINE`` holds the file descriptor of the reading end; without it nothing is watched.
    """
    descriptor = environ.get(LIFELINE_VARIABLE)
    if not descriptor:
        return
    lifeline = int(descriptor)

    def wait_for_end() -> None:
        with suppress(OSError):  # a descriptor that cannot be read is no lifeline: end, do not outlive
            while os.read(lifeline, 64):
                pass  # nothing is ever said on it
        on_close()

    threading.Thread(target=wait_for_end, name="lifeline", daemon=True).start()
