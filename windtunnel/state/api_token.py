"""The token that a lab's changing routes ask for: a file in ``state/``, read by whoever may."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

TOKEN_FILE = "token"
OWN, SHARED = 0o600, 0o666


def token_of(state: Path) -> str:
    """The folder's token, made if there is none. Raises ``OSError``."""
    path = state / TOKEN_FILE
    if not path.exists():
        state.mkdir(parents=True, exist_ok=True)
        _make(path, _mode(state))
    return path.read_text(encoding="ascii").strip()


def _mode(folder: Path) -> int:
    """As open as its folder: in Compose that lets in its owner and the services, who are other users."""
    return OWN if folder.stat().st_mode & 0o007 else SHARED


def _make(path: Path, mode: int) -> None:
    """Creates the file in one step, so that all processes that start at once read the same token."""
    temporary = path.with_name(f"{TOKEN_FILE}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(descriptor, secrets.token_hex(16).encode())
        os.fchmod(descriptor, mode)
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.close(descriptor)
        temporary.unlink()
