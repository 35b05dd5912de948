"""Where a launcher leaves what others are to trust: a folder that only its user can enter.

``state/`` does not serve for that, since in Compose the containers write there too.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from wirefault.core.digest import identifier

_OPEN_TO_OTHERS = 0o077


def private_folder() -> Path:
    """``wirefault`` in ``XDG_STATE_HOME``, else in ``~/.local/state``. Raises ``OSError`` without a home."""
    given = Path(os.environ.get("XDG_STATE_HOME", ""))
    if given.is_absolute():  # the specification has others ignored
        return given / "wirefault"
    try:
        return Path.home() / ".local" / "state" / "wirefault"
    except RuntimeError:
        raise OSError("this user has no home folder: set XDG_STATE_HOME to a folder of its own") from None


def make_private_folder() -> Path:
    """The folder, made if it is not there. Raises ``OSError`` if others than this user can enter it."""
    folder = private_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as error:
        raise OSError(f"{folder}: {error.strerror}: set XDG_STATE_HOME to a folder of your own") from None
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & _OPEN_TO_OTHERS:
        raise OSError(f"{folder} must be yours alone (chmod 700), or set XDG_STATE_HOME to such a folder")
    return folder


def private_file(state: Path, suffix: str) -> Path:
    """The file in the private folder that belongs to the lab of that state folder, whatever leads there."""
    return private_folder() / (identifier(state.resolve()) + suffix)
