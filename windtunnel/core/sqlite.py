"""How every process opens the lab's SQLite files."""

from __future__ import annotations

import sqlite3
from pathlib import Path

BUSY_TIMEOUT_MS = 5000


def connect(path: Path) -> sqlite3.Connection:
    """Opens (and creates) a database in autocommit mode, rows by column name.

    The rollback journal, never WAL: containers and the host share the files. ``synchronous=OFF``
    survives the death of any process; only a power failure could lose rows, of a lab that died with it.
    Raises ``sqlite3.Error``.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    database.row_factory = sqlite3.Row
    try:
        database.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        database.execute("PRAGMA journal_mode=DELETE")
        database.execute("PRAGMA synchronous=OFF")
    except sqlite3.Error:
        database.close()
        raise
    return database
