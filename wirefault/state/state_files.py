"""A lock that a run holds while its process lives, beside ``state.db``, where its manager can see it.

A heartbeat needs a share of a processor, which a busy machine may give to the manager and not to the run: the
system divides it between sessions or containers first, and a run's session may be a crowded one. The lock
needs nothing, and the system frees it however the run ends.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import suppress
from pathlib import Path

from wirefault.core.files import open_shared, read_shared, remove_shared


class RunLock:
    """The lock of one run, in the file ``RUN_ID.run`` of the folder of ``state.db``."""

    def __init__(self, folder: Path, run_id: str) -> None:
        self._folder = folder
        self._path = folder / f"{run_id}.run"
        self._descriptor: int | None = None

    def take(self) -> None:
        """Called by the run. On a full disk there is no lock: the heartbeat alone tells of its life."""
        with suppress(OSError):
            self._descriptor = open_shared(self._folder, self._path, os.O_RDWR | os.O_CREAT)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def free(self) -> None:
        """Called by the run at its end; twice is once."""
        if self._descriptor is not None:
            self.remove()
            os.close(self._descriptor)
            self._descriptor = None

    def remove(self) -> None:
        """Removes the file, which a run that was killed leaves behind."""
        with suppress(OSError, ValueError):
            remove_shared(self._folder, self._path)

    def is_held(self) -> bool:
        """Whether the run's process lives, as far as its lock shows."""
        try:
            descriptor = open_shared(self._folder, self._path, os.O_RDONLY)
        except (OSError, ValueError):  # the latter: the id of a run that no lab began is no name of a file
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # a folder that is shared by a system without locks
            return False
        finally:
            os.close(descriptor)
        return False


TOKEN_FILE = "token"
OWN, SHARED = 0o600, 0o666
_LONGEST = 256


def lab_token(state: Path) -> str:
    """The folder's token, made if there is none. Raises ``OSError``."""
    descriptor = open_shared(state, state / TOKEN_FILE, os.O_RDWR | os.O_CREAT, OWN)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # all processes that start at once read the same token
        if not os.fstat(descriptor).st_size:
            os.write(descriptor, secrets.token_hex(16).encode())
            os.fchmod(descriptor, _mode(state))
    finally:
        os.close(descriptor)
    return read_token(state)


def read_token(state: Path) -> str:
    """The folder's token. Raises ``OSError``, ``UnicodeDecodeError``."""
    return read_shared(state, state / TOKEN_FILE, _LONGEST).decode("ascii").strip()


def _mode(folder: Path) -> int:
    """As open as its folder: in Compose that lets in its owner and the services, who are other users."""
    return OWN if folder.stat().st_mode & 0o007 else SHARED
