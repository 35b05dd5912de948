"""The state of all worlds: one SQLite file that the services share with the judge; and what has it."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wirefault.core.sqlite import connect
from wirefault.core.worlds import EFFECTS_SCHEMA
from wirefault.wiring.link import Link

_IDEMPOTENCY_SCHEMA = """
CREATE TABLE IF NOT EXISTS idempotency (
    service TEXT NOT NULL, key TEXT NOT NULL, request TEXT NOT NULL,
    status INTEGER NOT NULL, answer TEXT NOT NULL, at REAL NOT NULL,
    PRIMARY KEY (service, key)
);
"""


@dataclass(frozen=True)
class Transaction:
    """An open write transaction on one world."""

    database: sqlite3.Connection
    world: str
    service: str
    key: str | None
    now: float

    def record(self, kind: str, fields: Mapping[str, Any]) -> None:
        """Adds a side effect, to be committed with the change of state that it tells of."""
        self.database.execute(
            "INSERT INTO effects (world, service, kind, fields, idempotency_key, at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (self.world, self.service, kind, json.dumps(fields, ensure_ascii=False), self.key, self.now),
        )


@dataclass(frozen=True)
class Store:
    """Opens the file for each use and closes it again.

    ``clock`` gives seconds since the epoch; ``tables`` is the SQL that makes the service's own tables, run
    at each use, so that a file which was removed is made anew.
    """

    path: Path
    clock: Callable[[], float]
    tables: str = ""
    # threads wait for this lock and not for SQLite's, which is polled, with pauses of up to 100 ms
    _turn: threading.Lock = field(default_factory=threading.Lock, compare=False)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """A connection with the tables in place; raises ``sqlite3.Error``."""
        try:
            database = connect(self.path)
        except OSError as error:
            raise sqlite3.OperationalError(f"{error.strerror}: {self.path.parent}") from None
        with closing(database):
            database.executescript(EFFECTS_SCHEMA + _IDEMPOTENCY_SCHEMA + self.tables)
            yield database

    @contextmanager
    def writing(self, world: str, service: str, key: str | None) -> Iterator[Transaction]:
        """One transaction that waits for any other writer; rolled back on an exception.

        The clock is read once the lock is held: times of side effects follow the order of commits.
        """
        with self._turn, self.reading() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield Transaction(database, world, service, key, self.clock())
                database.execute("COMMIT")
            except BaseException:  # nothing of an interrupted change may stay, whatever interrupted it
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise


@dataclass(frozen=True)
class Service:
    """What the factory hands to a service's module: its row of the catalog, the state of all worlds, its
    environment variables."""

    link: Link
    store: Store
    environ: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.link.service
