"""The toxics of attempts, kept in ``state.db``: what is desired now, what has ended, what may be left."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from windtunnel.toxiproxy.planned import PlannedToxic

TOXICS_SCHEMA = """
CREATE TABLE IF NOT EXISTS toxics (
    attempt_id INTEGER NOT NULL REFERENCES attempts (id), link TEXT NOT NULL, kind TEXT NOT NULL,
    stream TEXT NOT NULL, attributes TEXT NOT NULL, entry TEXT NOT NULL, configuration INTEGER NOT NULL,
    seconds REAL NOT NULL, armed_at REAL, ended_at REAL, removed_at REAL
);
CREATE INDEX IF NOT EXISTS toxics_by_attempt ON toxics (attempt_id);
"""
_COLUMNS = ("link", "kind", "stream", "entry", "configuration", "seconds")


class PlannedToxics:
    """The table of toxics in one connection's database. Raises ``sqlite3.Error``."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def add(self, attempt_id: int, plan: Iterable[PlannedToxic]) -> None:
        self._database.executemany(
            "INSERT INTO toxics (attempt_id, link, kind, stream, attributes, entry, configuration, seconds)"
            " VALUES (:id, :link, :kind, :stream, :attributes, :entry, :configuration, :seconds)",
            [{**vars(t), "attributes": json.dumps(dict(t.attributes)), "id": attempt_id} for t in plan],
        )

    def desired(self, attempt_id: int) -> list[PlannedToxic]:
        """What the attempt is to have now: its plan without the toxics whose time was over."""
        rows = self._database.execute(
            "SELECT * FROM toxics WHERE attempt_id = ? AND ended_at IS NULL ORDER BY rowid", (attempt_id,)
        )
        return [_toxic(row) for row in rows]

    def left(self, lab_id: str, lane: int) -> int:
        """How many toxics of the lane nobody has seen to be gone."""
        row = self._database.execute(
            "SELECT COUNT(*) FROM toxics JOIN attempts ON attempts.id = toxics.attempt_id"
            " WHERE lab_id = ? AND lane = ? AND removed_at IS NULL",
            (lab_id, lane),
        ).fetchone()
        return int(row[0])

    def mark_armed(self, attempt_id: int, now: float) -> None:
        """Notes that the attempt has its toxics."""
        self._database.execute(
            "UPDATE toxics SET armed_at = ?, removed_at = NULL WHERE attempt_id = ?", (now, attempt_id)
        )

    def mark_ended(self, attempt_id: int, seconds: float, now: float) -> None:
        """Notes that those of the attempt that were to last at most so long were removed in its midst."""
        self._database.execute(
            "UPDATE toxics SET ended_at = ?, removed_at = ?"
            " WHERE attempt_id = ? AND seconds > 0 AND seconds <= ? AND ended_at IS NULL",
            (now, now, attempt_id, seconds),
        )

    def mark_removed(self, lab_id: str, lane: int, now: float) -> None:
        """Notes that the lane was seen to have no toxic."""
        self._database.execute(
            "UPDATE toxics SET removed_at = ? WHERE removed_at IS NULL AND attempt_id IN"
            " (SELECT id FROM attempts WHERE lab_id = ? AND lane = ?)",
            (now, lab_id, lane),
        )


def _toxic(row: sqlite3.Row) -> PlannedToxic:
    return PlannedToxic(attributes=json.loads(row["attributes"]), **{name: row[name] for name in _COLUMNS})
