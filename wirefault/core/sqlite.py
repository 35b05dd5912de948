"""Open the lab's SQLite files, which other processes can write to in Compose.

A hostile file could redirect its reader to another file, block it, run statements (by views and triggers),
fill the memory, or delete any file of the user by a journal that names it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from wirefault.core.files import UnsafeFileError, check_shared, make_output_folder, read_shared_tail

BUSY_TIMEOUT_MS = 5000
_MAX_VALUE_LENGTH = 16 * 1024 * 1024
_MAGIC = b"SQLite format 3\0"
_HEADER_SIZE = 100
_FORMAT = slice(18, 19)  # of the header: 2 in WAL mode
_TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
_MAX_NAMED = 3
_SIDE_FILES = ("-journal", "-wal", "-shm")
# ends a journal that belongs to a super-journal, whose name precedes it
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
_FOREIGN = "SELECT name FROM sqlite_master WHERE type IN ('view', 'trigger') OR sql LIKE 'CREATE VIRTUAL%'"


class UnsafeDatabaseError(UnsafeFileError, sqlite3.Error):
    """Not a database of the lab, or unsafe to open as one."""


class _Cursor(sqlite3.Cursor):
    """Names the file in errors, or the planted journal that causes them."""

    connection: _Connection

    def execute(self, *arguments: Any) -> _Cursor:
        return self._named(super().execute, arguments)

    def executemany(self, *arguments: Any) -> _Cursor:
        return self._named(super().executemany, arguments)

    def executescript(self, *arguments: Any) -> _Cursor:
        return self._named(super().executescript, arguments)

    def _named(self, execute: Callable[..., sqlite3.Cursor], arguments: tuple[Any, ...]) -> _Cursor:
        try:
            execute(*arguments)
        except sqlite3.DatabaseError as error:
            check_files(self.connection.path)
            error.args = (f"{self.connection.path}: {error}",)
            raise
        return self


class _Connection(sqlite3.Connection):
    """Carries out its statements by ``_Cursor``."""

    path: Path

    def cursor(self, factory: Any = _Cursor) -> Any:
        """Check a planted journal before SQLite opens it: a pipe there would block it for ever."""
        if os.path.lexists(f"{self.path}-journal"):
            check_files(self.path)
        return super().cursor(factory)

    # Python's own ones do not call ``cursor``

    def execute(self, *arguments: Any) -> _Cursor:
        return self.cursor().execute(*arguments)  # type: ignore[no-any-return]

    def executemany(self, *arguments: Any) -> _Cursor:
        return self.cursor().executemany(*arguments)  # type: ignore[no-any-return]

    def executescript(self, *arguments: Any) -> _Cursor:
        return self.cursor().executescript(*arguments)  # type: ignore[no-any-return]


def connect(path: Path) -> sqlite3.Connection:
    """Open or create a database in autocommit mode, with rows by column name.

    Uses the rollback journal, never WAL, since containers and the host share the files. ``synchronous=OFF``
    survives the death of any process; only a power failure, which also ends the lab, could lose rows. Raises
    ``sqlite3.Error``, including ``UnsafeDatabaseError``.
    """
    make_output_folder(path.parent)
    check_files(path)
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=_Connection)
    database.path = path
    database.row_factory = sqlite3.Row
    try:
        _check_opened(database, path)
        database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_LENGTH)
        database.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        database.execute("PRAGMA trusted_schema=OFF")
        database.execute("PRAGMA journal_mode=DELETE")
        database.execute("PRAGMA synchronous=OFF")
        foreign = database.execute(_FOREIGN).fetchone()
        if foreign:
            raise UnsafeDatabaseError(
                f"{path} contains {foreign[0]!r}, which the lab never creates: move the file away"
            )
    except sqlite3.Error:
        database.close()
        raise
    return database


def check_owner(path: Path, table: str) -> None:
    """Raise ``UnsafeDatabaseError`` for a file that is unsafe or another program's, without changing it.

    ``table``: a table that every database of this kind has. Call it before this process opens the database:
    closing the file would release its locks. Other problems are reported on first use.
    """
    check_files(path)
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_SIZE)
        _check_header(header, path)
        with closing(connect(path)) as database:
            tables = [row["name"] for row in database.execute(_TABLES)]
    except UnsafeDatabaseError:
        raise
    except (sqlite3.Error, OSError):
        return
    if tables and table not in tables:
        named = ", ".join(tables[:_MAX_NAMED]) + (", ..." if len(tables) > _MAX_NAMED else "")
        raise _foreign(path, f"its tables are {named}")


def _check_header(header: bytes, path: Path) -> None:
    if header and not header.startswith(_MAGIC):
        raise _foreign(path, "it is not an SQLite database")
    if header[_FORMAT] == b"\x02":
        raise _foreign(path, "it is an SQLite database in WAL mode, which Wirefault never uses")


def _foreign(path: Path, reason: str) -> UnsafeDatabaseError:
    return UnsafeDatabaseError(
        f"{path} belongs to another program: {reason}. Move it away, or name another folder with --out"
    )


def check_files(path: Path) -> None:
    """Check the files without opening the database: closing it would release this process's locks on it.

    Raises ``UnsafeDatabaseError``.
    """
    journal = path.with_name(path.name + "-journal")
    try:
        for suffix in ("", *_SIDE_FILES):
            check_shared(path.with_name(path.name + suffix))
        ending = read_shared_tail(path.parent, journal, len(_JOURNAL_MAGIC))
    except FileNotFoundError:
        return
    except UnsafeFileError as error:
        raise UnsafeDatabaseError(str(error)) from None
    if ending == _JOURNAL_MAGIC:
        raise UnsafeDatabaseError(
            f"{journal} names another journal, which the lab never writes: move it away"
        )


def _check_opened(database: sqlite3.Connection, path: Path) -> None:
    """Check that SQLite, which follows links, opened the file that was checked."""
    opened = database.execute("PRAGMA database_list").fetchone()["file"]
    if opened != str(path.parent.resolve() / path.name):
        raise UnsafeDatabaseError(f"{path} is a link to {opened}: refusing to use it. Move it away")
