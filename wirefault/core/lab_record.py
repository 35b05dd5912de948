"""What the launcher of a lab that stays up records of it, in its user's private folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from wirefault.core.private_files import make_private_folder, private_file
from wirefault.core.whole_files import write_whole

_SUFFIX = ".json"


def write(state: Path, record: Mapping[str, Any]) -> None:
    """Records the lab of that ``state`` folder, in one step. Raises ``OSError``."""
    make_private_folder()
    write_whole(private_file(state, _SUFFIX), json.dumps(record).encode())


def read(state: Path) -> dict[str, Any] | None:
    """The record of the folder's lab, which may have ended since; None without any."""
    try:
        return dict(json.loads(private_file(state, _SUFFIX).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def remove(state: Path) -> None:
    with suppress(OSError):  # no home, no record
        private_file(state, _SUFFIX).unlink(missing_ok=True)
