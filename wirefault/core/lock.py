"""The lock on a folder's lab, held by its launcher. The system releases it however the launcher ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from wirefault.core.private_files import make_private_folder, private_file

_SUFFIX = ".lock"
# is_held holds the lock too, for a moment
_TAKE_BOUND_S = 1.0


class LabIsUp(Exception):
    """Another launcher holds the lock of this folder."""


@contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Holds the lock of that ``state`` folder within the block. Raises ``LabIsUp``, ``OSError``.

    The lock lies in the user's private folder: whoever else can write to ``state`` can neither hold nor
    free it.
    """
    make_private_folder()
    path = private_file(folder, _SUFFIX)
    end = time.monotonic() + _TAKE_BOUND_S
    while True:
        with path.open("ab") as file:
            if _take(file, path):
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return
        if time.monotonic() > end:
            raise LabIsUp(f"a lab is up or about to be in {folder}")
        time.sleep(0.01)


def _take(file: IO[bytes], path: Path) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # its last holder removed it, perhaps after this process had opened it
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False


def is_held(folder: Path) -> bool:
    """Whether a launcher of this user holds the lock of that ``state`` folder."""
    try:
        with private_file(folder, _SUFFIX).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is no such file, or no home to have one in
        return False
    return False
