"""Writes that act once per ``Idempotency-Key``.

Key, change of state and side effect are one transaction: the same key again waits for the first and
replays its stored answer. Without a key every request acts anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from flask import Request, Response, jsonify

from flask_tools.errors import ToolError
from flask_tools.inputs import header_text, printable_ascii, world_of_request
from flask_tools.store import Service, Transaction
from wirefault.core.worlds import IDEMPOTENCY_HEADER

# what clients call the key where they send it in the body
REQUEST_ID = "request_id"
_MAX_KEY_LENGTH = 200
_BAD_KEY = "bad_idempotency_key"
_REPLAYED_HEADER = "Idempotency-Replayed"

Answer = tuple[int, dict[str, Any]]
Action = Callable[[Transaction], Answer]


def write_once(service: Service, request: Request, action: Action) -> Response:
    """Runs ``action`` in a transaction on the request's world, or replays its stored answer.

    Check the request before calling: an exception in ``action`` rolls everything back.
    The key is the header's, else the body's ``request_id``. Raises ``ToolError`` 400 if they differ, and 422
    ``idempotency_key_reused`` for a key that stands for another request.
    """
    world = world_of_request(request)
    key = _key_of(request)
    digest = _digest(request, world)
    with service.store.writing(world, service.name, key) as transaction:
        stored = _stored(transaction, key, digest) if key else None
        answer = stored or action(transaction)
        if key and not stored:
            _store(transaction, key, digest, answer)
    return _response(answer, replayed=stored is not None)


def _key_of(request: Request) -> str | None:
    key = header_text(request, IDEMPOTENCY_HEADER, _BAD_KEY, _MAX_KEY_LENGTH)
    body = request.get_json(silent=True) if request.mimetype == "application/json" else None
    if not isinstance(body, dict) or REQUEST_ID not in body:
        return key
    named = body[REQUEST_ID]
    if not isinstance(named, str) or not printable_ascii(named, _MAX_KEY_LENGTH) or key not in (None, named):
        reason = f"must be 1 to {_MAX_KEY_LENGTH} printable ASCII characters, and the same as in the header"
        raise ToolError(400, _BAD_KEY, f"'{REQUEST_ID}' is the {IDEMPOTENCY_HEADER}: it {reason}.")
    return named


def _digest(request: Request, world: str) -> str:
    """The digest of world, method, path, query and body: a key belongs to the first request it came with."""
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
        message = f"This {IDEMPOTENCY_HEADER} was used for another request; take a new key for a new request."
        raise ToolError(422, "idempotency_key_reused", message)
    return row["status"], json.loads(row["answer"])


def _store(transaction: Transaction, key: str, digest: str, answer: Answer) -> None:
    status, body = answer
    row = (transaction.service, key, digest, status, json.dumps(body, ensure_ascii=False), transaction.now)
    transaction.database.execute("INSERT INTO idempotency VALUES (?, ?, ?, ?, ?, ?)", row)


def _response(answer: Answer, *, replayed: bool) -> Response:
    status, body = answer
    response = jsonify(body)
    response.status_code = status
    if replayed:
        response.headers[_REPLAYED_HEADER] = "true"
    return response
