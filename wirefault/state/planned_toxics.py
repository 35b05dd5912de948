"""The toxics of attempts, kept in ``state.db``: what is planned, and what may be left of it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import asdict

from wirefault.core.spans import Span
from wirefault.toxiproxy.planned import PlannedToxic

TOXICS_SCHEMA = """
CREATE TABLE IF NOT EXISTS toxics (
    attempt_id INTEGER NOT NULL REFERENCES attempts (id), link TEXT NOT NULL, kind TEXT NOT NULL,
    stream TEXT NOT NULL, attributes TEXT NOT NULL, entry TEXT NOT NULL, configuration INTEGER NOT NULL,
    seconds REAL NOT NULL, during TEXT NOT NULL, turn TEXT NOT NULL, armed_at REAL, removed_at REAL
);
CREATE INDEX IF NOT EXISTS toxics_by_attempt ON toxics (attempt_id);
CREATE INDEX IF NOT EXISTS toxics_left ON toxics (attempt_id) WHERE removed_at IS NULL;
"""
# Of those that are left, which are few: a long flight has had a hundred thousand attempts.
_LEFT_ON_LANE = (
    "removed_at IS NULL AND EXISTS"
    " (SELECT 1 FROM attempts WHERE id = toxics.attempt_id AND lab_id = ? AND lane = ?)"
)
_COLUMNS = ("link", "kind", "stream", "entry", "configuration", "seconds")


class PlannedToxics:
    """The table of toxics in one connection's database. Raises ``sqlite3.Error``."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def add(self, attempt_id: int, plan: Iterable[PlannedToxic]) -> None:
        self._database.executemany(
            "INSERT INTO toxics"
            " (attempt_id, link, kind, stream, attributes, entry, configuration, seconds, during, turn)"
            " VALUES"
            " (:id, :link, :kind, :stream, :attributes, :entry, :configuration, :seconds, :during, :turn)",
            [{**vars(toxic), **_as_texts(toxic), "id": attempt_id} for toxic in plan],
        )

    def planned(self, attempt_id: int) -> list[PlannedToxic]:
        """All that the attempt has at one time or another."""
        rows = self._database.execute(
            "SELECT * FROM toxics WHERE attempt_id = ? ORDER BY rowid", (attempt_id,)
        )
        return [_toxic(row) for row in rows]

    def left(self, lab_id: str, lane: int) -> int:
        """How many toxics of the lane nobody has seen to be gone."""
        row = self._database.execute(
            f"SELECT COUNT(*) FROM toxics WHERE {_LEFT_ON_LANE}", (lab_id, lane)
        ).fetchone()
        return int(row[0])

    def mark_armed(self, attempt_id: int, now: float) -> None:
        """Notes that the attempt has its toxics, or gets them when their time comes."""
        self._database.execute(
            "UPDATE toxics SET armed_at = ?, removed_at = NULL WHERE attempt_id = ?", (now, attempt_id)
        )

    def mark_removed(self, lab_id: str, lane: int, now: float) -> None:
        """Notes that the lane was seen to have no toxic."""
        self._database.execute(f"UPDATE toxics SET removed_at = ? WHERE {_LEFT_ON_LANE}", (now, lab_id, lane))


def _as_texts(toxic: PlannedToxic) -> dict[str, str]:
    """What is no plain number or text, as JSON; null for what is not said."""
    return {
        "attributes": json.dumps(dict(toxic.attributes)),
        "during": json.dumps(None if toxic.during is None else asdict(toxic.during)),
        "turn": json.dumps(toxic.turn),
    }


def _toxic(row: sqlite3.Row) -> PlannedToxic:
    during, turn = json.loads(row["during"]), json.loads(row["turn"])
    return PlannedToxic(
        attributes=json.loads(row["attributes"]),
        during=None if during is None else Span(**during),
        turn=None if turn is None else tuple(turn),
        **{name: row[name] for name in _COLUMNS},
    )
