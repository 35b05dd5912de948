"""Side effects as read by the judge, and opening of the databases."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from wirefault.core.sqlite import BUSY_TIMEOUT_MS, connect
from wirefault.state.effects import EFFECTS_SCHEMA, RecordedEffect, read_effects, world_key


def insert(path, world, service="message", kind="message_sent", fields=None, key=None, at=1.0):
    with closing(connect(path)) as database:
        database.executescript(EFFECTS_SCHEMA)
        database.execute(
            "INSERT INTO effects VALUES (NULL, ?, ?, ?, ?, ?, ?)",
            (world, service, kind, json.dumps(fields or {}), key, at),
        )


def test_world_is_episode_of_run():
    assert world_key("run-1", "3-1") == "run-1/3-1"


def test_effects_are_typed_and_oldest_first(tmp_path):
    insert(tmp_path / "e.db", "r/1", fields={"to": "Bob"}, key="k", at=2.5)
    insert(tmp_path / "e.db", "r/1", "calendar", "events_deleted", {"count": 2}, at=1.5)
    first, second = read_effects(tmp_path / "e.db", "r/1")
    assert first == RecordedEffect(1, "message", "message_sent", {"to": "Bob"}, "k", 2.5)
    assert (second.kind, second.fields, second.idempotency_key) == ("events_deleted", {"count": 2}, None)


@pytest.mark.parametrize("other", ["r/10", "r/", "r", "R/1", "r/1 ", "r/%"])
def test_worlds_are_separate(tmp_path, other):
    insert(tmp_path / "e.db", "r/1")
    assert read_effects(tmp_path / "e.db", other) == []


def test_missing_file_is_empty_world_and_not_created(tmp_path):
    assert read_effects(tmp_path / "none" / "e.db", "r/1") == []
    assert list(tmp_path.iterdir()) == []


def test_database_without_table_is_empty_world(tmp_path):
    connect(tmp_path / "e.db").close()
    assert read_effects(tmp_path / "e.db", "r/1") == []


def test_non_database_file_is_error(tmp_path):
    (tmp_path / "e.db").write_bytes(b"this is no database, and long enough to be read as one" * 99)
    with pytest.raises(sqlite3.DatabaseError):
        read_effects(tmp_path / "e.db", "r/1")


def test_each_connection_waits_and_has_rollback_journal(tmp_path):
    with closing(connect(tmp_path / "new" / "a.db")) as database:
        assert database.execute("PRAGMA busy_timeout").fetchone()[0] == BUSY_TIMEOUT_MS
        assert database.execute("PRAGMA journal_mode").fetchone()[0] == "delete"
        assert database.isolation_level is None
