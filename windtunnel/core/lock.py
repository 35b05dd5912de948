"""Who keeps the lab of a folder: the launcher that holds a lock, however it ends it lets go of it."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

LOCK_FILE = "lab.lock"
# a look at the lock holds it for a moment too
TAKE_BOUND_S = 1.0


class Taken(Exception):
    """Another launcher keeps a lab here."""


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Holds the folder's lock within the block. Raises ``Taken``, ``OSError``."""
    folder.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + TAKE_BOUND_S
    with (folder / LOCK_FILE).open("ab") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise Taken(f"a lab is up or about to be in {folder}") from None
                time.sleep(0.01)
        yield


def is_held(folder: Path) -> bool:
    try:
        with (folder / LOCK_FILE).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
