"""``python -m wirefault.lab.folders PROJECT COMMAND ...``: prepares the folders of a lab in Compose.

``state`` and ``logs`` are shared by the user, as owner, and the services, by group; others have no access.
All files in them are open to both. A name in ``.env`` that Compose does not pass on is named here.

Then it becomes the command, as the services' user and without capabilities. The command of ``init`` only
waits: the end of any container would end a lab that was started with ``--abort-on-container-exit``.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from wirefault.settings.settings import SettingsError
from wirefault.settings.sources import dotenv_remarks

_GROUP = 10001
_DATABASES = ("state.db", "effects.db")  # SQLite would make them 0644


def main(project: str, group: int = _GROUP) -> int:
    """0 on success, else 1 after one line with the error."""
    os.chdir(project)
    os.umask(0)
    try:
        for remark in dotenv_remarks(Path(".env")):
            sys.stderr.write(f"{remark}\n")
        owner = Path().stat().st_uid
        for name in ("state", "logs"):
            share(Path(name), owner, group)
            _write_trial(Path(name))
        for name in _DATABASES:
            (Path("state") / name).touch(0o666)
        share(Path("state"), owner, group)
    except SettingsError as error:
        return _say(str(error))
    except OSError as error:
        return _say(
            f"./{error.filename}: {error.strerror}: the lab's containers need ./state and ./logs"
            " to be writable folders, on a file system that stores owners"
        )
    return 0


def become(command: list[str], group: int = _GROUP) -> NoReturn:
    """Give up all privileges and become the command."""
    os.setgroups([])
    os.setresgid(group, group, group)
    os.setresuid(group, group, group)
    os.execvp(command[0], command)


def share(folder: Path, owner: int, group: int) -> None:
    """Give the folder and its content to the group; a folder of root, made by Docker, to ``owner``.

    Raises ``OSError``.
    """
    now = folder.stat()
    mine = now.st_uid or owner
    _set(folder, mine, group, 0o2770)
    for path in _below(folder):
        status = path.lstat()
        open_to_both = 0o2777 if stat.S_ISDIR(status.st_mode) else 0o666
        _set(path, status.st_uid or mine, group, stat.S_IMODE(status.st_mode) | open_to_both)


def _write_trial(folder: Path) -> None:
    """Write a file: modes do not show a read-only or full file system."""
    trial = folder / ".trial"
    trial.unlink(missing_ok=True)
    with os.fdopen(os.open(trial, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
        file.write(b"x")
    trial.unlink()


def _below(folder: Path) -> Iterator[Path]:
    """All files and folders in it; no links, pipes or devices, and nothing behind a link."""
    for parent, folders, files in os.walk(folder):
        for path in (Path(parent, name) for name in (*folders, *files)):
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
                yield path


def _set(path: Path, owner: int, group: int, mode: int) -> None:
    # a running container may replace the file at any moment
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        now = os.fstat(descriptor)
        if (now.st_uid, now.st_gid) != (owner, group):
            os.fchown(descriptor, owner, group)
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
            os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def _say(message: str) -> int:
    sys.stderr.write(f"error: {message}\n")
    return 1


if __name__ == "__main__":
    before = Path.cwd()
    if code := main(sys.argv[1]):
        sys.exit(code)
    os.chdir(before)
    become(sys.argv[2:])
