"""Links that are found while a subject runs, in ``state.db``: the ingress wants one, the manager opens it."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass
from typing import Literal

from wirefault.wiring.links import Link

FOUND_LINKS_SCHEMA = """
CREATE TABLE IF NOT EXISTS found_links (
    lab_id TEXT NOT NULL, lane INTEGER NOT NULL, name TEXT NOT NULL, link TEXT NOT NULL,
    status TEXT NOT NULL, gateway TEXT NOT NULL DEFAULT '', proxy TEXT NOT NULL DEFAULT '',
    reason TEXT NOT NULL DEFAULT '', PRIMARY KEY (lab_id, lane, name)
);
"""

FoundStatus = Literal["wanted", "open", "failed"]


@dataclass(frozen=True)
class FoundLink:
    """``gateway`` and ``proxy`` are addresses, known once it is open; ``reason``: why opening it failed."""

    link: Link
    status: FoundStatus
    gateway: str
    proxy: str
    reason: str


class FoundLinks:
    """The table of found links in one connection's database. Raises ``sqlite3.Error``."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def want(self, lab_id: str, lane: int, link: Link) -> None:
        """Asks for the link; one of that name that failed is asked for again, any other stays as it is."""
        self._database.execute(
            "INSERT INTO found_links (lab_id, lane, name, link, status) VALUES (?, ?, ?, ?, 'wanted')"
            " ON CONFLICT DO UPDATE SET status = 'wanted', reason = '' WHERE status = 'failed'",
            (lab_id, lane, link.name, json.dumps(link.dump())),
        )

    def rows(self, lab_id: str, lane: int) -> list[FoundLink]:
        """Those of the lane, in the order in which they were found."""
        rows = self._database.execute(
            "SELECT * FROM found_links WHERE lab_id = ? AND lane = ? ORDER BY rowid", (lab_id, lane)
        )
        return [
            FoundLink(Link.load(json.loads(row["link"])), *map(row.__getitem__, _COLUMNS)) for row in rows
        ]

    def mark_open(self, lab_id: str, lane: int, name: str, gateway: str, proxy: str) -> None:
        """The link can be dialled at ``proxy`` from now on."""
        self._database.execute(
            "UPDATE found_links SET status = 'open', gateway = ?, proxy = ?, reason = ''"
            " WHERE lab_id = ? AND lane = ? AND name = ?",
            (gateway, proxy, lab_id, lane, name),
        )

    def mark_failed(self, lab_id: str, lane: int, name: str, reason: str) -> None:
        """The link could not be opened; who waits for it need wait no longer."""
        self._database.execute(
            "UPDATE found_links SET status = 'failed', reason = ? WHERE lab_id = ? AND lane = ? AND name = ?",
            (reason, lab_id, lane, name),
        )


_COLUMNS = ("status", "gateway", "proxy", "reason")
