"""The queue of ``state/handoffs.db``: calls that the lab's agent hands over to a person, and the answers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from wirefault.core.sqlite import connect

Decision = Literal["approve", "deny"]
DECISIONS: tuple[Decision, ...] = get_args(Decision)
FILE_NAME = "handoffs.db"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS handoffs (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL,
    episode TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    tool TEXT NOT NULL,
    arguments TEXT NOT NULL,
    reason TEXT NOT NULL,
    error TEXT NOT NULL,
    asked_at REAL NOT NULL,
    until REAL NOT NULL,
    decision TEXT,
    decided_by TEXT,
    decided_at REAL
)
"""
_COLUMNS = "id, run, episode, attempt, tool, arguments, reason, error, asked_at, until, decision, decided_by"


@dataclass(frozen=True)
class Handoff:
    """One call that waits for a person, or was decided."""

    id: int
    run: str
    episode: str
    attempt: int
    tool: str
    arguments: Mapping[str, Any]
    reason: str  # ``unknown_effect`` or ``exhausted``
    error: str  # the failure's cause, as in ``ToolTry``
    asked_at: float  # seconds since the epoch
    until: float  # when the agent stops waiting, in seconds since the epoch
    decision: Decision | None
    decided_by: str | None


class HandoffQueue:
    """The queue of one lab; processes share its file. Methods raise ``sqlite3.Error``."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def put(
        self,
        where: tuple[str, str, int],
        tool: str,
        arguments: Mapping[str, Any],
        reason: str,
        error: str,
        asked_at: float,
        until: float,
    ) -> int:
        """Add a call and return its id. ``where``: run, episode and attempt."""
        values = (*where, tool, json.dumps(arguments, ensure_ascii=False), reason, error, asked_at, until)
        with closing(self._open()) as database:
            row = database.execute(
                "INSERT INTO handoffs"
                " (run, episode, attempt, tool, arguments, reason, error, asked_at, until)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id",
                values,
            ).fetchone()
            return int(row["id"])

    def get(self, id: int) -> Handoff | None:
        with closing(self._open()) as database:
            row = database.execute(f"SELECT {_COLUMNS} FROM handoffs WHERE id = ?", (id,)).fetchone()
            return _handoff(row) if row else None

    def latest(self, limit: int = 100) -> list[Handoff]:
        """Return the latest calls, the undecided ones first, the newest of each first."""
        if not self._path.exists():
            return []
        order = "ORDER BY decision IS NOT NULL, id DESC LIMIT ?"
        with closing(self._open()) as database:
            rows = database.execute(f"SELECT {_COLUMNS} FROM handoffs {order}", (limit,)).fetchall()
            return [_handoff(row) for row in rows]

    def decide(self, id: int, decision: Decision, by: str, now: float) -> bool:
        """Decide a call; return False if it was decided already, its time is over, or it is unknown."""
        with closing(self._open()) as database:
            changed = database.execute(
                "UPDATE handoffs SET decision = ?, decided_by = ?, decided_at = ?"
                " WHERE id = ? AND decision IS NULL AND until >= ?",
                (decision, by, now, id, now),
            )
            return changed.rowcount == 1

    def _open(self) -> sqlite3.Connection:
        database = connect(self._path)
        database.execute(_SCHEMA)
        return database


def _handoff(row: sqlite3.Row) -> Handoff:
    return Handoff(**{**dict(row), "arguments": json.loads(row["arguments"])})
