"""Locate the lab's programs and files, the folders of runs, and a running lab's record and lock.

A folder made by ``wirefault lab init`` is a separate lab. Elsewhere the lab is the one that came with the
library: package data of an installed library, or the root of a checkout. Standard library only, because the
build reads ``LAB_FILES``.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from wirefault.core.files import OUTPUT_FOLDER, make_private_folder, private_file, write_whole

# a file of this name, written by ``wirefault lab init``, marks a folder as a lab
MARKER = OUTPUT_FOLDER
# exists in an installed library only, not in a checkout
CARRIED = "carried"
LAB_FILES = (
    *("agent", "experiments", "flask_tools", "proxy_manager", "charts.py"),
    *("docker-compose.yaml", "compose.direct.yaml", "compose.subject.yaml", "examples/compose"),
    *("Dockerfile", ".dockerignore", "tools/environment.sh"),
    *("requirements-uv.lock", "requirements.lock", "requirements-recovery.lock"),
    *(".env.example", ".gitignore", "logs/.gitkeep", "state/.gitkeep"),
)
LIBRARY = Path(__file__).resolve().parents[1]


def lab_root() -> Path:
    """Return the folder that holds ``LAB_FILES``; relative if it is the current one, for shorter messages."""
    if Path(MARKER).is_file():
        return Path()
    carried = LIBRARY / CARRIED
    root = carried if carried.exists() else LIBRARY.parent
    return Path() if root == Path.cwd() else root


def sample_prompts() -> Path:
    """Return the lab's prompts file, the default of a run."""
    return lab_root() / "agent" / "prompts.json"


def folder_program() -> Path | None:
    """Return the command of the current folder's library, if it is a lab with its own copy of the library."""
    library = Path(LIBRARY.name).resolve()
    program = library / "lab" / "program.py"
    return program if Path(MARKER).is_file() and library != LIBRARY and program.exists() else None


# names of runs and experiments begin with the time: 20260101-120000-a1b2c3
_RUN_NAMES = "[0-9]" * 8 + "-" + "[0-9]" * 6 + "-*"


def output_folder(folder: Path | None = None) -> Path:
    """Return the folder that has ``logs/`` and ``state/`` of runs in ``folder``; default: the current one.

    An existing ``.wirefault/`` in the folder comes first. Otherwise it is the folder itself for a lab, for a
    folder named with ``--out``, and for one with runs of an earlier version or of an unpacked bundle.
    Elsewhere it is a new ``.wirefault/``, which keeps the output apart from a program's files.
    """
    here = folder or Path()
    own = here / OUTPUT_FOLDER
    if own.is_dir():
        return own
    if folder is not None or lab_root() == Path() or _has_runs(here / "logs"):
        return here
    return own


def _has_runs(logs: Path) -> bool:
    return any(next((logs / part).glob(_RUN_NAMES), None) for part in ("runs", "experiments"))


def logs_folder(environ: Mapping[str, str], configured: str | None = None) -> Path:
    """Return ``LOGS_DIR``, else the ``configured`` folder, else ``logs`` of the current folder's output."""
    return Path(environ.get("LOGS_DIR") or configured or output_folder() / "logs")


def state_file(environ: Mapping[str, str], configured: str | None = None) -> Path:
    """Return ``STATE_DB``, else the ``configured`` file, else the one of the current folder's output."""
    return Path(environ.get("STATE_DB") or configured or output_folder() / "state" / "state.db")


def effects_file(environ: Mapping[str, str], configured: str | None = None) -> Path:
    """Return ``EFFECTS_DB``, else the ``configured`` file, else the one of the current folder's output."""
    return Path(environ.get("EFFECTS_DB") or configured or output_folder() / "state" / "effects.db")


def cassettes_folder() -> Path:
    """Return the default folder of cassettes, which a lab keeps in ``state/cassettes``."""
    return output_folder() / "state" / "cassettes"


_SUFFIX = ".json"


def write_lab_record(state: Path, record: Mapping[str, Any]) -> None:
    """Write the record of the lab with that ``state`` folder, atomically. Raises ``OSError``."""
    make_private_folder()
    write_whole(private_file(state, _SUFFIX), json.dumps(record).encode())


def read_lab_record(state: Path) -> dict[str, Any] | None:
    """Read the record of the folder's lab, which may have ended; None if missing."""
    try:
        return dict(json.loads(private_file(state, _SUFFIX).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def remove_lab_record(state: Path) -> None:
    with suppress(OSError):  # no home folder, no record
        private_file(state, _SUFFIX).unlink(missing_ok=True)


_LOCK_SUFFIX = ".lock"
# is_lab_up also takes the lock, briefly
_TAKE_BOUND_S = 1.0


class LabIsUp(Exception):
    """Another launcher holds this folder's lock."""


@contextmanager
def hold_lab_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of that ``state`` folder within the block. Raises ``LabIsUp`` or ``OSError``.

    The lock file is in the user's private folder, so other users who can write to ``state`` can neither hold
    nor free it.
    """
    make_private_folder()
    path = private_file(folder, _LOCK_SUFFIX)
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
            raise LabIsUp(f"a lab is up or starting in {folder}")
        time.sleep(0.01)


def _take(file: IO[bytes], path: Path) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # the last holder removed the file, perhaps after this process opened it
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False


def is_lab_up(folder: Path) -> bool:
    """Return whether a launcher of this user holds the lock of that ``state`` folder."""
    try:
        with private_file(folder, _LOCK_SUFFIX).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # no lock file, or no home folder for it
        return False
    return False
