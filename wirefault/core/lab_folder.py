"""Where the lab is: its programs and files, which are no part of the library.

A folder that ``wirefault lab init`` made is a lab of its own. Elsewhere the lab is the one that came with the
library: inside an installed one, as data, and beside that of a checkout. Standard library only, since the
build reads ``LAB_FILES``, too.
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

from wirefault.core.files import make_private_folder, private_file, write_whole

# written by ``wirefault lab init``: the folder that has it is a lab
MARKER = ".wirefault"
# inside an installed library; a checkout has none
CARRIED = "carried"
LAB_FILES = (
    *("agent", "experiments", "flask_tools", "proxy_manager", "charts.py"),
    *("docker-compose.yaml", "compose.direct.yaml", "compose.subject.yaml", "examples/compose"),
    *("Dockerfile", ".dockerignore", "requirements.lock"),
    *(".env.example", ".gitignore", "logs/.gitkeep", "state/.gitkeep"),
)
LIBRARY = Path(__file__).resolve().parents[1]


def lab_root() -> Path:
    """The folder that holds ``LAB_FILES``; relative, which is shorter in messages, if it is this one."""
    if Path(MARKER).exists():
        return Path()
    carried = LIBRARY / CARRIED
    root = carried if carried.exists() else LIBRARY.parent
    return Path() if root == Path.cwd() else root


def sample_prompts() -> Path:
    """The lab's own prompts file, which a run takes if no other one is named."""
    return lab_root() / "agent" / "prompts.json"


def folder_program() -> Path | None:
    """What runs the library of this folder, if the folder is a lab of its own and this library is another."""
    library = Path(LIBRARY.name).resolve()
    program = library / "lab" / "program.py"
    return program if Path(MARKER).exists() and library != LIBRARY and program.exists() else None


_SUFFIX = ".json"


def write_lab_record(state: Path, record: Mapping[str, Any]) -> None:
    """Records the lab of that ``state`` folder, in one step. Raises ``OSError``."""
    make_private_folder()
    write_whole(private_file(state, _SUFFIX), json.dumps(record).encode())


def read_lab_record(state: Path) -> dict[str, Any] | None:
    """The record of the folder's lab, which may have ended since; None without any."""
    try:
        return dict(json.loads(private_file(state, _SUFFIX).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def remove_lab_record(state: Path) -> None:
    with suppress(OSError):  # no home, no record
        private_file(state, _SUFFIX).unlink(missing_ok=True)


_LOCK_SUFFIX = ".lock"
# is_held holds the lock too, for a moment
_TAKE_BOUND_S = 1.0


class LabIsUp(Exception):
    """Another launcher holds the lock of this folder."""


@contextmanager
def hold_lab_lock(folder: Path) -> Iterator[None]:
    """Holds the lock of that ``state`` folder within the block. Raises ``LabIsUp``, ``OSError``.

    The lock lies in the user's private folder: whoever else can write to ``state`` can neither hold nor
    free it.
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
            raise LabIsUp(f"a lab is up or about to be in {folder}")
        time.sleep(0.01)


def _take(file: IO[bytes], path: Path) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # its last holder removed it, perhaps after this process had opened it
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False


def is_lab_up(folder: Path) -> bool:
    """Whether a launcher of this user holds the lock of that ``state`` folder."""
    try:
        with private_file(folder, _LOCK_SUFFIX).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is no such file, or no home to have one in
        return False
    return False
