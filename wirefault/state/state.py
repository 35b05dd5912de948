"""``state/state.db``: runs, attempts, toxics and configurations, shared by runner and manager.

Every change of an attempt's state is a compare-and-set. Times are seconds since the epoch.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from wirefault.core.sqlite import UnsafeDatabaseError, check_owner, connect
from wirefault.settings.settings import SettingsError
from wirefault.state.tables import (
    CONFIGURATIONS_SCHEMA,
    FOUND_LINKS_SCHEMA,
    HELD_CALLS_SCHEMA,
    KILLS_SCHEMA,
    TOXICS_SCHEMA,
    Configurations,
    FoundLinks,
    HeldCallRows,
    KillRows,
    PlannedToxics,
)
from wirefault.toxiproxy.planned import PlannedToxic

RunStatus = Literal["waiting", "leased", "finished", "expired", "live"]
AttemptState = Literal["requested", "armed", "finished", "healed", "abandoned"]

HEARTBEAT_EVERY = 0.5
STALE_AFTER = 2.0
HUNG_AFTER = 30.0  # for a run whose lock shows that its process is alive

# stored in every file as ``user_version``; increase it with any change to a table
_VERSION = 7
_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    run_id TEXT PRIMARY KEY, lab_id TEXT NOT NULL, lane INTEGER NOT NULL, status TEXT NOT NULL,
    seed INTEGER NOT NULL, settings TEXT NOT NULL, settings_hash TEXT NOT NULL,
    created REAL NOT NULL, heartbeat REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS attempts (
    id INTEGER PRIMARY KEY, run_id TEXT NOT NULL, lab_id TEXT NOT NULL, lane INTEGER NOT NULL,
    episode TEXT NOT NULL, attempt INTEGER NOT NULL, state TEXT NOT NULL,
    requested_at REAL NOT NULL, armed_at REAL, finished_at REAL, healed_at REAL,
    settled INTEGER, disturbed TEXT NOT NULL DEFAULT '[]',
    turn INTEGER NOT NULL DEFAULT 1, armed_turn INTEGER NOT NULL DEFAULT 1,
    UNIQUE (run_id, episode, attempt)
);
CREATE TABLE IF NOT EXISTS managers (
    lab_id TEXT NOT NULL, lane INTEGER NOT NULL, pid INTEGER NOT NULL, heartbeat REAL NOT NULL,
    not_ready TEXT NOT NULL, PRIMARY KEY (lab_id, lane)
);
CREATE INDEX IF NOT EXISTS attempts_by_state ON attempts (lab_id, lane, state);
"""


@dataclass(frozen=True)
class RunRow:
    run_id: str
    lab_id: str
    lane: int
    status: RunStatus
    seed: int
    settings: str
    settings_hash: str
    created: float
    heartbeat: float


@dataclass(frozen=True)
class AttemptRow:
    """An attempt as the manager sees it. Times are None until the state is reached."""

    id: int
    run_id: str
    lab_id: str
    lane: int
    episode: str
    attempt: int
    state: AttemptState
    requested_at: float
    armed_at: float | None
    finished_at: float | None
    healed_at: float | None
    settled: bool | None
    disturbed: tuple[str, ...]  # reasons that make the attempt invalid: a repair, a foreign change
    turn: int = 1  # the user's turn that the runner requests
    armed_turn: int = 1  # the turn whose faults are in force


class ManagerBeat(NamedTuple):
    """A lane's manager at its last heartbeat."""

    at: float
    not_ready: str
    """Reason why it cannot arm an attempt; empty if it can."""


class State:
    """A connection to the database, for one thread at a time. Raises ``sqlite3.Error``.

    Raises ``SettingsError`` if another version of the lab created the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database = connect(path)
        try:
            self._create_tables()
        except (sqlite3.Error, SettingsError):
            self.close()
            raise
        self.configurations = Configurations(self._database)
        self.toxics = PlannedToxics(self._database)
        self.found_links = FoundLinks(self._database)
        self.held_calls = HeldCallRows(self._database)
        self.kills = KillRows(self._database)

    def _create_tables(self) -> None:
        # one statement, since another process may create the tables in between
        version, tables = self._database.execute(
            "SELECT user_version, (SELECT COUNT(*) FROM sqlite_master) FROM pragma_user_version"
        ).fetchone()
        if not version and not tables:
            schema = "".join(
                (
                    _SCHEMA,
                    TOXICS_SCHEMA,
                    CONFIGURATIONS_SCHEMA,
                    FOUND_LINKS_SCHEMA,
                    HELD_CALLS_SCHEMA,
                    KILLS_SCHEMA,
                )
            )
            self._database.executescript(
                f"BEGIN IMMEDIATE; {schema} PRAGMA user_version = {_VERSION}; COMMIT"
            )
        elif version != _VERSION:
            raise SettingsError(
                f"{self.path} belongs to another version of the lab; move it away."
                " It has only current requests to the manager; the histories in logs/ are not affected"
            )

    def close(self) -> None:
        self._database.close()

    def __enter__(self) -> State:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def data_version(self) -> int:
        """Return a number that changes when another connection has written; cheap to poll."""
        return int(self._database.execute("PRAGMA data_version").fetchone()[0])

    # runs and the lease of a lane

    def insert_run(
        self,
        run_id: str,
        lab_id: str,
        lane: int,
        settings: str,
        settings_hash: str,
        seed: int,
        created: float,
        heartbeat: float | None = None,
        status: RunStatus = "waiting",
    ) -> None:
        """Insert a run. ``heartbeat``: its first heartbeat, if later than ``created``."""
        self._database.execute(
            "INSERT INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (run_id, lab_id, lane, status, seed, settings, settings_hash, created, heartbeat or created),
        )

    def remove_run(self, run_id: str) -> None:
        """Remove a run's row, so that another lab can continue the run."""
        self._database.execute("DELETE FROM runs WHERE run_id = ?", (run_id,))

    def run(self, run_id: str) -> RunRow | None:
        row = self._database.execute("SELECT * FROM runs WHERE run_id = ?", (run_id,)).fetchone()
        return RunRow(**dict(row)) if row else None

    def runs(self, lab_id: str, lane: int, status: RunStatus) -> list[RunRow]:
        """Return the lane's runs with that status, oldest first."""
        rows = self._database.execute(
            "SELECT * FROM runs WHERE lab_id = ? AND lane = ? AND status = ? ORDER BY created, run_id",
            (lab_id, lane, status),
        )
        return [RunRow(**dict(row)) for row in rows]

    def move_run(self, run_id: str, old: RunStatus, new: RunStatus) -> bool:
        """Compare-and-set of a run's status; False if it was not ``old``."""
        return self._changed("UPDATE runs SET status = ? WHERE run_id = ? AND status = ?", (new, run_id, old))

    def beat_run(self, run_id: str, now: float) -> None:
        self._database.execute("UPDATE runs SET heartbeat = ? WHERE run_id = ?", (now, run_id))

    # attempts

    def request_attempt(
        self, run: RunRow, episode: str, attempt: int, plan: Sequence[PlannedToxic], now: float
    ) -> int:
        """Ask the manager to arm the plan; return the attempt's id."""
        with self._transaction():
            cursor = self._database.execute(
                "INSERT INTO attempts (run_id, lab_id, lane, episode, attempt, state, requested_at)"
                " VALUES (?, ?, ?, ?, ?, 'requested', ?)",
                (run.run_id, run.lab_id, run.lane, episode, attempt, now),
            )
            attempt_id = int(cursor.lastrowid or 0)
            self.toxics.add(attempt_id, plan)
        return attempt_id

    def attempt(self, attempt_id: int) -> AttemptRow:
        row = self._database.execute("SELECT * FROM attempts WHERE id = ?", (attempt_id,)).fetchone()
        return _attempt(row)

    def open_attempts(self, lab_id: str, lane: int) -> list[AttemptRow]:
        """Return attempts that are not healed yet (requested, armed or finished), oldest first."""
        rows = self._database.execute(
            "SELECT * FROM attempts WHERE lab_id = ? AND lane = ?"
            " AND state IN ('requested', 'armed', 'finished') ORDER BY id",
            (lab_id, lane),
        )
        return [_attempt(row) for row in rows]

    def move_attempt(
        self, attempt_id: int, old: AttemptState, new: AttemptState, now: float, settled: bool | None = None
    ) -> bool:
        """Compare-and-set of an attempt's state; False if it was not ``old``.

        Sets the time of the new state. ``armed`` also sets the time of the attempt's toxics and clears the
        earlier reasons for an invalid attempt.
        """
        column = {"armed": "armed_at", "finished": "finished_at", "healed": "healed_at"}.get(new)
        stamp = f", {column} = {float(now)!r}" if column else ""
        stamp += ", disturbed = '[]'" if new == "armed" else ""
        with self._transaction():
            moved = self._changed(
                f"UPDATE attempts SET state = ?, settled = COALESCE(?, settled){stamp}"
                " WHERE id = ? AND state = ?",
                (new, settled, attempt_id, old),
            )
            if moved and new == "armed":
                self.toxics.mark_armed(attempt_id, now)
        return moved

    def request_turn(self, attempt_id: int, turn: int) -> None:
        """Ask the manager to arm the faults of that user turn."""
        self._database.execute("UPDATE attempts SET turn = ? WHERE id = ?", (turn, attempt_id))

    def arm_turn(self, attempt_id: int, turn: int) -> None:
        """Record that the faults of that turn are in force."""
        self._database.execute("UPDATE attempts SET armed_turn = ? WHERE id = ?", (turn, attempt_id))

    def disturb(self, attempt_id: int, reason: str) -> None:
        """Record a reason that makes the attempt invalid."""
        with self._transaction():
            known = self.attempt(attempt_id).disturbed
            self._database.execute(
                "UPDATE attempts SET disturbed = ? WHERE id = ?", (json.dumps([*known, reason]), attempt_id)
            )

    # the manager's own heartbeat

    def beat_manager(self, lab_id: str, lane: int, pid: int, now: float, not_ready: str = "") -> None:
        self._database.execute(
            "REPLACE INTO managers VALUES (?, ?, ?, ?, ?)", (lab_id, lane, pid, now, not_ready)
        )

    def manager_beat(self, lab_id: str, lane: int) -> ManagerBeat | None:
        row = self._database.execute(
            "SELECT heartbeat, not_ready FROM managers WHERE lab_id = ? AND lane = ?", (lab_id, lane)
        ).fetchone()
        return ManagerBeat(*row) if row else None

    def _changed(self, statement: str, parameters: Sequence[Any]) -> bool:
        return self._database.execute(statement, parameters).rowcount == 1

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Run the block in ``BEGIN IMMEDIATE``: commit at its end, or roll back if it raises."""
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        finally:
            # also after a failed COMMIT: an open transaction would fail every later one
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")


def check_version(path: Path) -> None:
    """Raise ``SettingsError`` for a file of another version, before a lab starts.

    Raises ``UnsafeDatabaseError`` for an unsafe file or another program's. Other problems are reported on
    first use.
    """
    if not os.path.lexists(path):
        return
    check_owner(path, "toxics")
    try:
        State(path).close()
    except UnsafeDatabaseError:
        raise
    except (sqlite3.Error, OSError):
        return


def _attempt(row: sqlite3.Row) -> AttemptRow:
    values = dict(row)
    values["disturbed"] = tuple(json.loads(values["disturbed"]))
    values["settled"] = None if values["settled"] is None else bool(values["settled"])
    return AttemptRow(**values)
