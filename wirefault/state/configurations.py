"""Numbered fault configurations of a lab that is up, kept in ``state.db``: each replaces the one before."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

CONFIGURATIONS_SCHEMA = """
CREATE TABLE IF NOT EXISTS configurations (
    lab_id TEXT NOT NULL, lane INTEGER NOT NULL, number INTEGER NOT NULL, faults TEXT NOT NULL,
    source TEXT NOT NULL, created REAL NOT NULL, refused TEXT, PRIMARY KEY (lab_id, lane, number)
);
"""


@dataclass(frozen=True)
class ConfigurationRow:
    """``faults`` is the set's canonical text, empty for none; ``refused`` says why it never was in force."""

    lab_id: str
    lane: int
    number: int
    faults: str
    source: str
    created: float
    refused: str | None


class Configurations:
    """The table of fault configurations in one connection's database. Raises ``sqlite3.Error``."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def add(self, lab_id: str, lane: int, faults: str, source: str, now: float) -> int:
        """Writes the lane's next configuration and returns its number, which counts from 1."""
        row = self._database.execute(
            "INSERT INTO configurations SELECT ?, ?, COALESCE(MAX(number), 0) + 1, ?, ?, ?, NULL"
            " FROM configurations WHERE lab_id = ? AND lane = ? RETURNING number",
            (lab_id, lane, faults, source, now, lab_id, lane),
        ).fetchall()
        return int(row[0]["number"])

    def latest(self, lab_id: str, lane: int, since: float = 0.0) -> ConfigurationRow | None:
        """The last configuration since that time that was not refused."""
        row = self._database.execute(
            "SELECT * FROM configurations WHERE lab_id = ? AND lane = ? AND created >= ?"
            " AND refused IS NULL ORDER BY number DESC LIMIT 1",
            (lab_id, lane, since),
        ).fetchone()
        return ConfigurationRow(**dict(row)) if row else None

    def of_number(self, lab_id: str, lane: int, number: int) -> ConfigurationRow | None:
        row = self._database.execute(
            "SELECT * FROM configurations WHERE lab_id = ? AND lane = ? AND number = ?",
            (lab_id, lane, number),
        ).fetchone()
        return ConfigurationRow(**dict(row)) if row else None

    def refuse(self, row: ConfigurationRow, reason: str) -> None:
        """Notes why it cannot be in force; the configuration before it stays in force."""
        self._database.execute(
            "UPDATE configurations SET refused = ? WHERE lab_id = ? AND lane = ? AND number = ?",
            (reason, row.lab_id, row.lane, row.number),
        )
