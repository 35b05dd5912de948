"""A database is untrusted data: opening one only opens it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.core.hostile import TRAPS, VICTIM, database_with, journal_that_deletes, victim_of
from wirefault.core import sqlite
from wirefault.core.sqlite import UnsafeDatabaseError, connect

SCHEMA = "CREATE TABLE rows (x)"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    database_with(tmp_path / "state" / "state.db", SCHEMA)
    return tmp_path / "state" / "state.db"


def test_lab_database_is_opened(path: Path) -> None:
    with closing(connect(path)) as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchone()["name"] == "rows"
    (path.parents[1] / "other").symlink_to(path.parent)
    connect(path.parents[1] / "other" / path.name).close()  # the user may reach the folder by a link


@pytest.mark.parametrize("name", ["state.db", "state.db-journal", "state.db-wal", "state.db-shm"])
@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
def test_foreign_database_file_is_one_line_error(path: Path, name: str, trap) -> None:
    victim = victim_of(path)
    path.with_name(name).unlink(missing_ok=True)
    trap(path.with_name(name), victim)
    with pytest.raises(UnsafeDatabaseError, match=rf"{name} is .*: refusing to use it"):
        connect(path)
    assert victim.read_bytes() == VICTIM and not victim.with_name("made-by-symlink").exists()


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
@pytest.mark.parametrize("statement", ["execute", "executemany", "executescript"])
def test_journal_planted_while_database_is_open_is_named(path: Path, trap, statement: str) -> None:
    victim, journal = victim_of(path), path.with_name("state.db-journal")
    with closing(connect(path)) as database:
        trap(journal, victim)
        rows = () if statement == "executescript" else ([[1]],)
        with pytest.raises(UnsafeDatabaseError, match=r"state\.db-journal is .*: refusing to use it"):
            getattr(database, statement)("INSERT INTO rows VALUES (1)", *rows)
        assert victim.read_bytes() == VICTIM
        journal.rmdir() if journal.is_dir() and not journal.is_symlink() else journal.unlink()
        database.execute("INSERT INTO rows VALUES (1)")


def test_error_names_its_database(path: Path) -> None:
    with closing(connect(path)) as database:
        with pytest.raises(sqlite3.OperationalError, match=r"state\.db: no such table: absent"):
            database.execute("SELECT * FROM absent")
        path.rename(path.with_name("moved"))
        with pytest.raises(sqlite3.OperationalError, match=r"state\.db: attempt to write"):
            database.execute("INSERT INTO rows VALUES (1)")


def test_link_created_after_check_is_detected(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = path.with_name("mine.db")
    database_with(victim, SCHEMA)
    before = victim.read_bytes()
    path.unlink()
    path.symlink_to(victim)
    monkeypatch.setattr(sqlite, "check_files", lambda _: None)
    with pytest.raises(UnsafeDatabaseError, match=r"is a link to .*mine\.db"):
        connect(path)
    assert victim.read_bytes() == before


def test_journal_cannot_delete_user_file(path: Path) -> None:
    victim = victim_of(path)
    journal_that_deletes(path, victim)
    with pytest.raises(UnsafeDatabaseError, match="names another journal"):
        connect(path)
    assert victim.exists()
    with closing(sqlite3.connect(path)) as unguarded:  # SQLite without the guard
        unguarded.execute("SELECT * FROM rows").fetchall()
    assert not victim.exists()


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE VIEW effects AS {ENDLESS}",
        f"CREATE TRIGGER t AFTER INSERT ON rows BEGIN INSERT INTO rows {ENDLESS}; END",
        "CREATE VIRTUAL TABLE effects USING fts5(x)",
    ],
)
def test_database_with_triggers_or_views_is_refused(path: Path, statement: str) -> None:
    database_with(path, statement)
    with pytest.raises(UnsafeDatabaseError, match="which the lab never creates"):
        connect(path)


def test_huge_value_is_error(path: Path) -> None:
    database_with(path, "INSERT INTO rows VALUES (zeroblob(900000000))")
    with closing(connect(path)) as database, pytest.raises(sqlite3.Error, match="too big"):
        database.execute("SELECT x FROM rows").fetchone()


@pytest.mark.parametrize("damage", [b"\xff" * 200, b"SQLite format 3\0" + b"\xff" * 4080, b"\0" * 4096])
def test_non_database_file_is_error(path: Path, damage: bytes) -> None:
    path.write_bytes(damage)
    with pytest.raises(sqlite3.DatabaseError):
        connect(path)
