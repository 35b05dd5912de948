"""A lock in a file next to ``state.db`` that shows whether a run's or a manager's process is alive.

A manager also holds one so that no second manager serves the same lab. A heartbeat needs CPU time, which a
busy machine may give to the manager but not to the run. A lock needs none, and the system frees it however
the process ends.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from wirefault.core.files import open_shared, remove_shared


class RunLock:
    """The lock of one run, in the file ``RUN_ID.run`` of the folder of ``state.db``."""

    def __init__(self, folder: Path, run_id: str) -> None:
        self._folder = folder
        self._path = folder / f"{run_id}.run"
        self._descriptor: int | None = None

    def take(self) -> bool:
        """Take the lock; return False if another process has it.

        If the file cannot be created, as on a full disk, only the heartbeat shows that the run is alive.
        """
        try:
            self._descriptor = open_shared(self._folder, self._path, os.O_RDWR | os.O_CREAT)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def free(self) -> None:
        """Free the lock at the end of the run; idempotent."""
        if self._descriptor is not None:
            self.remove()
            os.close(self._descriptor)
            self._descriptor = None

    def remove(self) -> None:
        """Remove the file, which a killed run leaves behind."""
        with suppress(OSError, ValueError):
            remove_shared(self._folder, self._path)

    def is_held(self) -> bool:
        """Return whether a process holds the lock."""
        try:
            descriptor = open_shared(self._folder, self._path, os.O_RDONLY)
        except (OSError, ValueError):  # ValueError: the id of a foreign run may not be a valid file name
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # a shared folder on a system without locks
            return False
        finally:
            os.close(descriptor)
        return False
