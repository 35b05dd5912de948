"""The state of all worlds, an SQLite file that the services share with the judge, and idempotent writes.

A write with an ``Idempotency-Key`` acts once: key, change of state and side effect are one transaction, and
a request with the same key waits for the first and replays its answer. Without a key every request acts.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flask import Request, Response, jsonify

from flask_tools.inputs import ToolError, header_text, printable_ascii, request_world
from wirefault.core.sqlite import connect
from wirefault.state.effects import EFFECTS_SCHEMA, IDEMPOTENCY_HEADER, REPLAYED_HEADER
from wirefault.wiring.links import Link

REQUEST_ID = "request_id"  # the key's field in the body
_MAX_KEY_LENGTH = 200
_BAD_KEY = "bad_idempotency_key"
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
        """Add a side effect; it is committed together with its change of state."""
        self.database.execute(
            "INSERT INTO effects (world, service, kind, fields, idempotency_key, at)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (self.world, self.service, kind, json.dumps(fields, ensure_ascii=False), self.key, self.now),
        )


@dataclass(frozen=True)
class Store:
    """The SQLite file, which is opened for each use."""

    path: Path
    clock: Callable[[], float]  # epoch seconds
    tables: str = ""  # SQL for the service's own tables; run at each use, so a removed file is created again
    # threads wait for this lock, because SQLite polls its own with pauses of up to 100 ms
    _turn: threading.Lock = field(default_factory=threading.Lock, compare=False)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Open a connection and create missing tables. Raises ``sqlite3.Error``."""
        try:
            database = connect(self.path)
        except OSError as error:
            raise sqlite3.OperationalError(f"{error.strerror}: {self.path.parent}") from None
        with closing(database):
            database.executescript(EFFECTS_SCHEMA + _IDEMPOTENCY_SCHEMA + self.tables)
            yield database

    @contextmanager
    def writing(self, world: str, service: str, key: str | None) -> Iterator[Transaction]:
        """Open a transaction after other writers have ended theirs; an exception rolls it back.

        The clock is read with the lock held, so that side effects have times in the order of commits.
        """
        with self._turn, self.reading() as database:
            database.execute("BEGIN IMMEDIATE")
            try:
                yield Transaction(database, world, service, key, self.clock())
                database.execute("COMMIT")
            except BaseException:  # also roll back an interrupted change
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise


@dataclass(frozen=True)
class Service:
    """The argument of a service module's ``blueprint``: link, state of all worlds, environment variables."""

    link: Link
    store: Store
    environ: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.link.service


Answer = tuple[int, dict[str, Any]]  # status and JSON body
Action = Callable[[Transaction], Answer]


def write_once(service: Service, request: Request, action: Action) -> Response:
    """Run ``action`` in a transaction on the request's world, or replay its stored answer.

    Check the request before this call; an exception in ``action`` rolls the transaction back.
    The key comes from the header, else from the body's ``request_id``. Raises ``ToolError`` 400 if the two
    differ, 422 ``idempotency_key_reused`` if the key was used for another request.
    """
    world = request_world(request)
    key = _request_key(request)
    digest = _digest(request, world)
    with service.store.writing(world, service.name, key) as transaction:
        stored = _stored(transaction, key, digest) if key else None
        status, body = stored or action(transaction)
        if key and not stored:
            answer = json.dumps(body, ensure_ascii=False)
            row = (transaction.service, key, digest, status, answer, transaction.now)
            transaction.database.execute("INSERT INTO idempotency VALUES (?, ?, ?, ?, ?, ?)", row)
    response = jsonify(body)
    response.status_code = status
    if stored:
        response.headers[REPLAYED_HEADER] = "true"
    return response


def _request_key(request: Request) -> str | None:
    key = header_text(request, IDEMPOTENCY_HEADER, _BAD_KEY, _MAX_KEY_LENGTH)
    body = request.get_json(silent=True) if request.mimetype == "application/json" else None
    if not isinstance(body, dict) or REQUEST_ID not in body:
        return key
    body_key = body[REQUEST_ID]
    is_valid = isinstance(body_key, str) and printable_ascii(body_key, _MAX_KEY_LENGTH)
    if not is_valid or key not in (None, body_key):
        reason = f"must be 1 to {_MAX_KEY_LENGTH} printable ASCII characters, and the same as in the header"
        raise ToolError(400, _BAD_KEY, f"'{REQUEST_ID}' is the {IDEMPOTENCY_HEADER}: it {reason}.")
    return str(body_key)


def _digest(request: Request, world: str) -> str:
    """Hash world, method, path, query and body: a key belongs to the first request that used it."""
    parts = (world.encode(), request.method.encode(), request.path.encode(), request.query_string)
    digest = hashlib.blake2b(digest_size=16)
    for part in (*parts, request.get_data(cache=True)):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def _stored(transaction: Transaction, key: str, digest: str) -> Answer | None:
    row = transaction.database.execute(
        "SELECT request, status, answer FROM idempotency WHERE service = ? AND key = ?",
        (transaction.service, key),
    ).fetchone()
    if row is None:
        return None
    if row["request"] != digest:
        message = (
            f"This {IDEMPOTENCY_HEADER} was used for another request; send a new request with a new key."
        )
        raise ToolError(422, "idempotency_key_reused", message)
    return row["status"], json.loads(row["answer"])
