"""The token that a lab's changing routes ask for: a file in ``state/``, read by whoever may."""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path

from wirefault.core.files import open_shared, read_shared

TOKEN_FILE = "token"
OWN, SHARED = 0o600, 0o666
_LONGEST = 256


def token_of(state: Path) -> str:
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
