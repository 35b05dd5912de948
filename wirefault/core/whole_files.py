"""Files that a reader sees as they were or as they are, and never half written."""

from __future__ import annotations

import secrets
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Writes the file anew, in one step, beside others who do. Raises ``OSError``: the old file stays."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
