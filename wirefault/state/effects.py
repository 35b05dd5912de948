"""Read worlds and side effects, which the tools write to ``state/effects.db``, for the judge.

A world is the state of one episode, keyed ``run_id/episode``. A side effect is a change in it.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wirefault.core.sqlite import check_owner, connect

WORLD_HEADER = "Wirefault-World"
TRANSLATOR_HEADER = "Wirefault-Translator"
IDEMPOTENCY_HEADER = "Idempotency-Key"
REPLAYED_HEADER = "Idempotency-Replayed"
# Unix time in milliseconds until which the caller waits. An absolute time: a relative one would not count the
# time that the request spends on its way.
DEADLINE_HEADER = "X-Request-Deadline"
DEFAULT_WORLD = "default"

EFFECTS_SCHEMA = """
CREATE TABLE IF NOT EXISTS effects (
    id INTEGER PRIMARY KEY,
    world TEXT NOT NULL,
    service TEXT NOT NULL,
    kind TEXT NOT NULL,
    fields TEXT NOT NULL,
    idempotency_key TEXT,
    at REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS effects_by_world ON effects (world, id);
"""
_SELECT_EFFECTS = """
SELECT id, service, kind, fields, idempotency_key, at FROM effects WHERE world = ? ORDER BY id
"""


@dataclass(frozen=True)
class RecordedEffect:
    """One side effect."""

    id: int
    service: str
    kind: str  # declared in the wiring for its service, with the fields
    fields: Mapping[str, Any]
    idempotency_key: str | None
    at: float  # time of the commit, in seconds since the epoch


def world_key(run_id: str, episode: str) -> str:
    return f"{run_id}/{episode}"


def check_effects(path: Path) -> None:
    """Raise ``UnsafeDatabaseError`` for an unsafe file or another program's, before a lab starts."""
    if os.path.lexists(path):
        check_owner(path, "effects")


def read_effects(path: Path, world: str) -> list[RecordedEffect]:
    """Return the side effects in that world, oldest first; none if no tool has written yet.

    Raises ``sqlite3.Error`` if the file exists and cannot be read.
    """
    if not os.path.lexists(path):
        return []
    with closing(connect(path)) as database:
        try:
            rows = database.execute(_SELECT_EFFECTS, (world,)).fetchall()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return []
            raise
    return [RecordedEffect(**{**row, "fields": json.loads(row["fields"])}) for row in rows]
