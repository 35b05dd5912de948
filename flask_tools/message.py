"""The message service: an inbox that is the same in each new world, and the messages sent in a world."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, request

from flask_tools.inputs import json_object, query, request_world, required_text
from flask_tools.store import REQUEST_ID, Answer, Service, Transaction, write_once

_MAX_NAME_LENGTH = 200
_MAX_BODY_LENGTH = 5000

TABLES = """
CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY, world TEXT NOT NULL, recipient TEXT NOT NULL, body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS messages_by_world ON messages (world, id);
"""

INBOX = (
    {
        "id": 1,
        "from": "Alice",
        "body": "The budget for the spring offsite is 4200 euros. Please keep it under that.",
        "at": "2026-02-27T16:20",
    },
    {
        "id": 2,
        "from": "Carol",
        "body": "The design review has moved to room 314, same time as before.",
        "at": "2026-03-01T11:05",
    },
    {
        "id": 3,
        "from": "Dan",
        "body": "My train gets in at 18:45 on Thursday. Could you pick me up at the station?",
        "at": "2026-03-02T08:10",
    },
)
_SENDERS = [str(message["from"]) for message in INBOX]
_ONESELF = ("me", "myself", "self")
_NOW = "2026-03-02T09:00"  # today, in the lab


def blueprint(service: Service) -> Blueprint:
    """Return the routes ``POST /message``, ``GET /inbox`` and ``GET /sent``."""
    routes = Blueprint("messages", __name__)

    @routes.post("/message")
    def send() -> Response:
        fields = json_object(request, "to", "body", REQUEST_ID)
        query(request)
        message = {
            "to": required_text(fields, "to", _MAX_NAME_LENGTH),
            "body": required_text(fields, "body", _MAX_BODY_LENGTH, lines=True),
        }
        return write_once(service, request, lambda transaction: _send(transaction, message))

    @routes.get("/inbox")
    def inbox() -> Response:
        query(request)
        messages = _sent_messages(service, request_world(request))
        arrived = [_arrival(*message) for message in messages]
        new = [{"id": number, **each} for number, each in enumerate(filter(None, arrived), len(INBOX) + 1)]
        return jsonify({"messages": [*INBOX, *new]})

    @routes.get("/sent")
    def sent_messages() -> Response:
        query(request)
        messages = _sent_messages(service, request_world(request))
        return jsonify({"messages": [{"to": to, "body": body} for to, body in messages]})

    return routes


def _sent_messages(service: Service, world: str) -> list[tuple[str, str]]:
    """Return recipient and body of each message sent in the world, oldest first."""
    with service.store.reading() as database:
        sql = "SELECT recipient, body FROM messages WHERE world = ? ORDER BY id"
        return [(row["recipient"], row["body"]) for row in database.execute(sql, (world,))]


def _arrival(to: str, body: str) -> dict[str, str] | None:
    """Return the message that arrives in the inbox after a message was sent, if any.

    A message to oneself arrives unchanged. The senders of the inbox always answer, with the same words.
    """
    if to.casefold() in _ONESELF:
        return {"from": to, "body": body, "at": _NOW}
    sender = next((known for known in _SENDERS if known.casefold() == to.casefold()), None)
    return {"from": sender, "body": f"Thanks, I got your message: {body}", "at": _NOW} if sender else None


def _send(transaction: Transaction, message: dict[str, str]) -> Answer:
    transaction.database.execute(
        "INSERT INTO messages (world, recipient, body) VALUES (?, ?, ?)",
        (transaction.world, message["to"], message["body"]),
    )
    transaction.record("message_sent", message)
    return 201, {"status": "sent", "message": message}
