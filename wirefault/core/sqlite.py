"""How every process opens the lab's SQLite files, which in Compose others can write too.

What a hostile file could do to its reader: lead to another file, hang it, run statements of its own (by views
and triggers), fill the memory, or have any file of the user's deleted, by a journal that names that one.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from wirefault.core.files import UnsafeFileError, check_shared, read_end_of_shared

BUSY_TIMEOUT_MS = 5000
_LONGEST_VALUE = 16 * 1024 * 1024
_BESIDE = ("-journal", "-wal", "-shm")
# at the end of a journal that goes with a super-journal, whose name stands before it
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
_FOREIGN = "SELECT name FROM sqlite_master WHERE type IN ('view', 'trigger') OR sql LIKE 'CREATE VIRTUAL%'"


class UnsafeDatabaseError(UnsafeFileError, sqlite3.Error):
    """The file is no database of the lab's, or not fit to be opened as one."""


def connect(path: Path) -> sqlite3.Connection:
    """Opens (and creates) a database in autocommit mode, rows by column name.

    The rollback journal, never WAL: containers and the host share the files. ``synchronous=OFF``
    survives the death of any process; only a power failure could lose rows, of a lab that died with it.
    Raises ``sqlite3.Error``, of which ``UnsafeDatabaseError`` is one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    _check_files(path)
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    database.row_factory = sqlite3.Row
    try:
        _check_opened(database, path)
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_VALUE)
        database.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        database.execute("PRAGMA trusted_schema=OFF")
        database.execute("PRAGMA journal_mode=DELETE")
        database.execute("PRAGMA synchronous=OFF")
        foreign = database.execute(_FOREIGN).fetchone()
        if foreign:
            raise UnsafeDatabaseError(f"{path} holds {foreign[0]!r}, which no lab made: move it away")
    except sqlite3.Error:
        database.close()
        raise
    return database


def _check_files(path: Path) -> None:
    """The database itself is not opened for that: to close it again would free this process's locks on it."""
    journal = path.with_name(path.name + "-journal")
    try:
        for suffix in ("", *_BESIDE):
            check_shared(path.with_name(path.name + suffix))
        ending = read_end_of_shared(path.parent, journal, len(_JOURNAL_MAGIC))
    except FileNotFoundError:
        return
    except UnsafeFileError as error:
        raise UnsafeDatabaseError(str(error)) from None
    if ending == _JOURNAL_MAGIC:
        raise UnsafeDatabaseError(f"{journal} names another journal, as no lab writes it: move it away")


def _check_opened(database: sqlite3.Connection, path: Path) -> None:
    """SQLite follows a link: what it opened must be what was checked."""
    opened = database.execute("PRAGMA database_list").fetchone()["file"]
    if opened != str(path.parent.resolve() / path.name):
        raise UnsafeDatabaseError(f"{path} is a link to {opened}: it is not used; move it away")
