"""The lock on a folder's lab, held by its launcher. The system releases it however the launcher ends."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOCK_FILE = "lab.lock"
# is_held holds the lock too, for a moment
_TAKE_BOUND_S = 1.0


class LabIsUp(Exception):
    """Another launcher holds the lock of this folder."""


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Holds the folder's lock within the block. Raises ``LabIsUp``, ``OSError``."""
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + _TAKE_BOUND_S
    with (folder / _LOCK_FILE).open("ab") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise LabIsUp(f"a lab is up or about to be in {folder}") from None
                time.sleep(0.01)
        yield


def is_held(folder: Path) -> bool:
    """Whether a launcher holds the folder's lock."""
    try:
        with (folder / _LOCK_FILE).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
