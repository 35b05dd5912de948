"""Tables of ``state.db``: configurations, links found at run time, held calls, kills and planned toxics."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from msgspec import convert, to_builtins
from msgspec.json import decode, encode

from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.wiring.links import Link

CONFIGURATIONS_SCHEMA = """
CREATE TABLE IF NOT EXISTS configurations (
    lab_id TEXT NOT NULL, lane INTEGER NOT NULL, number INTEGER NOT NULL, faults TEXT NOT NULL,
    source TEXT NOT NULL, created REAL NOT NULL, refused TEXT, PRIMARY KEY (lab_id, lane, number)
);
"""


@dataclass(frozen=True)
class ConfigurationRow:
    """One configuration of a lab that is up. Each replaces the lane's previous one."""

    lab_id: str
    lane: int
    number: int
    faults: str  # the set's canonical text; empty for no faults
    source: str
    created: float
    refused: str | None  # why it never took effect


class Configurations:
    """The table of fault configurations in one connection's database. Raises ``sqlite3.Error``."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def add(self, lab_id: str, lane: int, faults: str, source: str, now: float) -> int:
        """Insert the lane's next configuration and return its number, from 1."""
        row = self._database.execute(
            "INSERT INTO configurations SELECT ?, ?, COALESCE(MAX(number), 0) + 1, ?, ?, ?, NULL"
            " FROM configurations WHERE lab_id = ? AND lane = ? RETURNING number",
            (lab_id, lane, faults, source, now, lab_id, lane),
        ).fetchall()
        return int(row[0]["number"])

    def latest(self, lab_id: str, lane: int, since: float = 0.0) -> ConfigurationRow | None:
        """Return the last configuration since that time that was not refused."""
        row = self._database.execute(
            "SELECT * FROM configurations WHERE lab_id = ? AND lane = ? AND created >= ?"
            " AND refused IS NULL ORDER BY number DESC LIMIT 1",
            (lab_id, lane, since),
        ).fetchone()
        return ConfigurationRow(**dict(row)) if row else None

    def get(self, lab_id: str, lane: int, number: int) -> ConfigurationRow | None:
        row = self._database.execute(
            "SELECT * FROM configurations WHERE lab_id = ? AND lane = ? AND number = ?",
            (lab_id, lane, number),
        ).fetchone()
        return ConfigurationRow(**dict(row)) if row else None

    def refuse(self, row: ConfigurationRow, reason: str) -> None:
        """Record why the configuration cannot take effect. The previous one remains in force."""
        self._database.execute(
            "UPDATE configurations SET refused = ? WHERE lab_id = ? AND lane = ? AND number = ?",
            (reason, row.lab_id, row.lane, row.number),
        )


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
    """A link found at run time."""

    link: Link
    status: FoundStatus
    gateway: str  # address; empty until the link is open
    proxy: str  # address; empty until the link is open
    reason: str  # why opening failed


class FoundLinks:
    """The table of found links in one connection's database. Raises ``sqlite3.Error``."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def want(self, lab_id: str, lane: int, link: Link) -> None:
        """Request the link. A failed link of that name is requested again; any other row is unchanged."""
        self._database.execute(
            "INSERT INTO found_links (lab_id, lane, name, link, status) VALUES (?, ?, ?, ?, 'wanted')"
            " ON CONFLICT DO UPDATE SET status = 'wanted', reason = '' WHERE status = 'failed'",
            (lab_id, lane, link.name, encode(link).decode()),
        )

    def rows(self, lab_id: str, lane: int) -> list[FoundLink]:
        """Return the lane's found links, oldest first."""
        rows = self._database.execute(
            "SELECT * FROM found_links WHERE lab_id = ? AND lane = ? ORDER BY rowid", (lab_id, lane)
        )
        return [FoundLink(decode(row["link"], type=Link), *map(row.__getitem__, _COLUMNS)) for row in rows]

    def in_lab(self, lab_id: str) -> list[Link]:
        """Return the found links of all lanes, oldest first."""
        rows = self._database.execute(
            "SELECT link FROM found_links WHERE lab_id = ? ORDER BY rowid", (lab_id,)
        )
        return [decode(row["link"], type=Link) for row in rows]

    def mark_open(self, lab_id: str, lane: int, name: str, gateway: str, proxy: str) -> None:
        """Record that the link can be dialled at ``proxy``."""
        self._database.execute(
            "UPDATE found_links SET status = 'open', gateway = ?, proxy = ?, reason = ''"
            " WHERE lab_id = ? AND lane = ? AND name = ?",
            (gateway, proxy, lab_id, lane, name),
        )

    def mark_model(self, lab_id: str, lane: int, name: str, dialect: str) -> None:
        """Record that a request on the link showed a model's API."""
        self._database.execute(
            "UPDATE found_links SET link = json_set(link, '$.dialect', ?, '$.recognised', json('true'))"
            " WHERE lab_id = ? AND lane = ? AND name = ?",
            (dialect, lab_id, lane, name),
        )

    def mark_failed(self, lab_id: str, lane: int, name: str, reason: str) -> None:
        """Record that the link could not be opened, so that waiters stop waiting."""
        self._database.execute(
            "UPDATE found_links SET status = 'failed', reason = ? WHERE lab_id = ? AND lane = ? AND name = ?",
            (reason, lab_id, lane, name),
        )


_COLUMNS = ("status", "gateway", "proxy", "reason")


HELD_CALLS_SCHEMA = """
CREATE TABLE IF NOT EXISTS held_calls (
    run_id TEXT NOT NULL, episode TEXT NOT NULL, attempt INTEGER NOT NULL, link TEXT NOT NULL,
    call INTEGER NOT NULL, PRIMARY KEY (run_id, episode, attempt, call, link)
) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class HeldCall:
    """A call that the gateway holds."""

    run_id: str
    episode: str
    attempt: int
    link: str
    call: int  # its ordinal among the attempt's calls on the link, from 1


class HeldCallRows:
    """The table of held calls in one connection's database. Raises ``sqlite3.Error``."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def add(self, call: HeldCall) -> None:
        """Record that the gateway holds the call."""
        self._database.execute(
            "INSERT OR IGNORE INTO held_calls VALUES (:run_id, :episode, :attempt, :link, :call)", vars(call)
        )

    def of(self, run_id: str, episode: str, attempt: int) -> list[HeldCall]:
        """Return an attempt's held calls, in order of their numbers."""
        rows = self._database.execute(
            "SELECT * FROM held_calls WHERE run_id = ? AND episode = ? AND attempt = ? ORDER BY call",
            (run_id, episode, attempt),
        )
        return [HeldCall(**dict(row)) for row in rows]

    def remove(self, call: HeldCall) -> None:
        """Record that the gateway has released the call."""
        self._database.execute(
            "DELETE FROM held_calls WHERE run_id = :run_id AND episode = :episode AND attempt = :attempt"
            " AND link = :link AND call = :call",
            vars(call),
        )


KillState = Literal["wanted", "dead", "gone", "failed", "closed"]
KillSignal = Literal["kill", "term"]

KILLS_SCHEMA = """
CREATE TABLE IF NOT EXISTS kills (
    run_id TEXT NOT NULL, episode TEXT NOT NULL, attempt INTEGER NOT NULL, number INTEGER NOT NULL,
    link TEXT NOT NULL, entry TEXT NOT NULL, point TEXT NOT NULL, signal TEXT NOT NULL, grace_s REAL NOT NULL,
    wait_s REAL NOT NULL, state TEXT NOT NULL DEFAULT 'wanted', why TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (run_id, episode, attempt, number)
) WITHOUT ROWID;
"""


@dataclass(frozen=True)
class KillOrder:
    """A point of the wire at which the gateway wants the subject dead; it holds the reply until then."""

    run_id: str
    episode: str
    attempt: int
    number: int  # among the attempt's kills, from 1
    link: str
    entry: str  # id of the fault set's entry
    point: str  # as the fault's ``at``
    signal: KillSignal
    grace_s: float  # that the subject has after SIGTERM until SIGKILL
    wait_s: float  # that the runner lets pass before the signal
    # wanted (by the gateway); dead, gone (it had ended before) or failed (by the runner); closed (by the
    # gateway: nothing of the dead processes can arrive any more)
    state: KillState = "wanted"
    why: str = ""  # the reason of a failure


class KillRows:
    """The table of kills in one connection's database. Raises ``sqlite3.Error``."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    def add(self, order: KillOrder) -> None:
        """Insert the gateway's order. Idempotent."""
        self._database.execute(
            "INSERT OR IGNORE INTO kills VALUES (:run_id, :episode, :attempt, :number, :link, :entry, :point,"
            " :signal, :grace_s, :wait_s, :state, :why)",
            vars(order),
        )

    def last(self, run_id: str, episode: str, attempt: int) -> KillOrder | None:
        """Return the attempt's latest kill; None without one."""
        row = self._database.execute(
            "SELECT * FROM kills WHERE run_id = ? AND episode = ? AND attempt = ?"
            " ORDER BY number DESC LIMIT 1",
            (run_id, episode, attempt),
        ).fetchone()
        return KillOrder(**dict(row)) if row else None

    def move(self, order: KillOrder, state: KillState, why: str = "") -> bool:
        """Change its state if it still has the one in ``order``; False if it has another."""
        changed = self._database.execute(
            "UPDATE kills SET state = :new, why = :new_why WHERE run_id = :run_id AND episode = :episode"
            " AND attempt = :attempt AND number = :number AND state = :state",
            {**vars(order), "new": state, "new_why": why},
        )
        return changed.rowcount == 1


TOXICS_SCHEMA = """
CREATE TABLE IF NOT EXISTS toxics (
    attempt_id INTEGER NOT NULL REFERENCES attempts (id), link TEXT NOT NULL, kind TEXT NOT NULL,
    stream TEXT NOT NULL, attributes TEXT NOT NULL, entry TEXT NOT NULL, configuration INTEGER NOT NULL,
    seconds REAL NOT NULL, during TEXT NOT NULL, turn TEXT NOT NULL, armed_at REAL, removed_at REAL
);
CREATE INDEX IF NOT EXISTS toxics_by_attempt ON toxics (attempt_id);
CREATE INDEX IF NOT EXISTS toxics_left ON toxics (attempt_id) WHERE removed_at IS NULL;
"""
# Starts from the remaining toxics, which are few: a long run may have a hundred thousand attempts.
_LEFT_ON_LANE = (
    "removed_at IS NULL AND EXISTS"
    " (SELECT 1 FROM attempts WHERE id = toxics.attempt_id AND lab_id = ? AND lane = ?)"
)
_IN_JSON = ("attributes", "during", "turn")  # columns


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
            [{**_columns(toxic), "id": attempt_id} for toxic in plan],
        )

    def planned(self, attempt_id: int) -> list[PlannedToxic]:
        """Return all toxics planned for the attempt."""
        rows = self._database.execute(
            "SELECT * FROM toxics WHERE attempt_id = ? ORDER BY rowid", (attempt_id,)
        )
        return [_toxic(row) for row in rows]

    def left(self, lab_id: str, lane: int) -> int:
        """Return the number of toxics on the lane that are not confirmed as removed."""
        row = self._database.execute(
            f"SELECT COUNT(*) FROM toxics WHERE {_LEFT_ON_LANE}", (lab_id, lane)
        ).fetchone()
        return int(row[0])

    def mark_armed(self, attempt_id: int, now: float) -> None:
        """Record that the attempt's toxics are in place, or will be at their start times."""
        self._database.execute(
            "UPDATE toxics SET armed_at = ?, removed_at = NULL WHERE attempt_id = ?", (now, attempt_id)
        )

    def mark_removed(self, lab_id: str, lane: int, now: float) -> None:
        """Record that the lane was seen without toxics."""
        self._database.execute(f"UPDATE toxics SET removed_at = ? WHERE {_LEFT_ON_LANE}", (now, lab_id, lane))


def _columns(toxic: PlannedToxic) -> dict[str, Any]:
    fields = to_builtins(toxic).items()
    return {name: json.dumps(value) if name in _IN_JSON else value for name, value in fields}


def _toxic(row: sqlite3.Row) -> PlannedToxic:
    return convert({**dict(row), **{name: decode(row[name]) for name in _IN_JSON}}, PlannedToxic)
