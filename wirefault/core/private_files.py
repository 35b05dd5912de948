"""Files of labs and runs in the user's private folder, and the sweep that removes files of killed processes.

Each owner holds a lock, which the system frees however the owner's process ends. A sweep removes all files
that are no longer locked, because a lab's files have its unredacted commands and, for ``lab up``, its token.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from wirefault.core.files import make_private_folder, private_folder

TAP = "tap-"
"""Prefix of the names of taps' folders."""
_LAB, _OWNER = "lab-", ".owner"
_LOCK, _RECORD = ".lock", ".json"
# a killed process closes its files one after the other
_DYING_BOUND_S = 2.0
_POLL_S = 0.01


class LabFiles:
    """Files whose names begin with a lab's id, owned from ``take`` to ``remove``."""

    def __init__(self, lab_id: str) -> None:
        self._lab_id = lab_id
        self._owner = -1

    def take(self) -> None:
        """Make the private folder, sweep it, and show that this lab is up. Raises ``OSError``."""
        folder = make_private_folder()
        with _locked(folder):
            _sweep(folder)
            path = folder / f"{self._lab_id}{_OWNER}"
            self._owner = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._owner, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove these files and files that killed owners left. Can be called twice, and without ``take``."""
        if self._owner >= 0:
            os.close(self._owner)
            self._owner = -1
            sweep()


def is_owned(lab_id: str) -> bool | None:
    """Return whether the launcher of this user's lab of that id is alive; None if none is known."""
    try:
        descriptor = os.open(private_folder() / f"{lab_id}{_OWNER}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def tap_folder() -> Iterator[Path]:
    """Create a folder in the private folder, and remove it after the block. Raises ``OSError``."""
    private = make_private_folder()
    with _locked(private):
        _sweep(private)
        folder = Path(mkdtemp(prefix=TAP, dir=private))
        in_use = os.open(folder, os.O_RDONLY)
        fcntl.flock(in_use, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        rmtree(folder, ignore_errors=True)
        os.close(in_use)


def sweep() -> None:
    """Remove files that killed labs and runs of this user left behind, as far as possible."""
    with suppress(OSError):
        folder = private_folder()
        with _locked(folder):
            _sweep(folder)


def sweep_after(lab_id: str) -> None:
    """Sweep as soon as the lock of that lab's killed launcher is free, or after a bound."""
    end = time.monotonic() + _DYING_BOUND_S
    with suppress(OSError):
        owner = private_folder() / f"{lab_id}{_OWNER}"
        sweep()
        while owner.exists() and time.monotonic() < end:
            time.sleep(_POLL_S)
            sweep()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder, so that no sweep sees a new owner's file before its lock."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _sweep(folder: Path) -> None:
    with suppress(OSError):
        for owner in folder.glob(f"{_LAB}*{_OWNER}"):
            with _if_free(owner) as free:
                if free:
                    _remove_lab(folder, owner)
        for directory in folder.glob(f"{TAP}*"):
            with _if_free(directory) as free:
                if free:
                    rmtree(directory, ignore_errors=True)
        for lock in folder.glob(f"*{_LOCK}"):
            with _if_free(lock) as free:
                if free:
                    lock.with_suffix(_RECORD).unlink(missing_ok=True)
                    lock.unlink(missing_ok=True)
        for record in folder.glob(f"*{_RECORD}"):
            if not record.name.startswith(_LAB) and not record.with_suffix(_LOCK).exists():
                record.unlink(missing_ok=True)


def _remove_lab(folder: Path, owner: Path) -> None:
    """Remove the lab's files, the owner's last: if one cannot be removed, the next sweep tries again."""
    lab_id = owner.name.removesuffix(_OWNER)
    # the names of files that are being written begin with a dot
    left = [*folder.glob(f"{lab_id}*"), *folder.glob(f".{lab_id}*")]
    for path in sorted(left, key=lambda path: path == owner):
        path.unlink(missing_ok=True)


@contextmanager
def _if_free(path: Path) -> Iterator[bool]:
    """Yield whether the process that locked the file or folder has ended; hold the lock in the block."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # removed meanwhile, or unreadable
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # the last owner may have removed it, and another one created it again
        free = os.path.samestat(os.fstat(descriptor), path.stat())
    except (BlockingIOError, FileNotFoundError):
        free = False
    try:
        yield free
    finally:
        os.close(descriptor)
