"""Calls that the gateway holds until the manager has changed their link's toxics, in ``state.db``."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

HELD_CALLS_SCHEMA = """
CREATE TABLE IF NOT EXISTS held_calls (
    run_id TEXT NOT NULL, episode TEXT NOT NULL, attempt INTEGER NOT NULL, link TEXT NOT NULL,
    call INTEGER NOT NULL, PRIMARY KEY (run_id, episode, attempt, call, link)
) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class HeldCall:
    """``call``: its number among all of the attempt on that link, from 1."""

    run_id: str
    episode: str
    attempt: int
    link: str
    call: int


class HeldCallRows:
    """The table of held calls in one connection's database. Raises ``sqlite3.Error``."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def add(self, held: HeldCall) -> None:
        """The gateway holds it from now on."""
        self._database.execute(
            "INSERT OR IGNORE INTO held_calls VALUES (:run_id, :episode, :attempt, :link, :call)", vars(held)
        )

    def of(self, run_id: str, episode: str, attempt: int) -> list[HeldCall]:
        """Those of an attempt, in the order of their numbers."""
        rows = self._database.execute(
            "SELECT * FROM held_calls WHERE run_id = ? AND episode = ? AND attempt = ? ORDER BY call",
            (run_id, episode, attempt),
        )
        return [HeldCall(**dict(row)) for row in rows]

    def remove(self, held: HeldCall) -> None:
        """It is held no longer."""
        self._database.execute(
            "DELETE FROM held_calls WHERE run_id = :run_id AND episode = :episode AND attempt = :attempt"
            " AND link = :link AND call = :call",
            vars(held),
        )
