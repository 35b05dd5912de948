"""The calendar service: events of a world. Today is Monday 2026-03-02 in the lab."""

from __future__ import annotations

import re
import sqlite3
from datetime import date as Day
from typing import Any

from flask import Blueprint, Response, jsonify, request

from flask_tools.inputs import bad_value, json_object, query, request_world, required_text
from flask_tools.store import REQUEST_ID, Answer, Service, Transaction, write_once

_MAX_TITLE_LENGTH = 200
_MAX_DATE_LENGTH = 40

TABLES = """
CREATE TABLE IF NOT EXISTS calendars (world TEXT PRIMARY KEY);
CREATE TABLE IF NOT EXISTS events (
    id INTEGER PRIMARY KEY, world TEXT NOT NULL, title TEXT NOT NULL, date TEXT NOT NULL, time TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS events_by_world ON events (world, date, time);
"""

# (title, date, time): every world starts with these events; they do not count as side effects
FIXTURES = (
    ("Budget review", "2026-03-02", "10:00"),
    ("Dentist appointment", "2026-03-05", "09:30"),
    ("Sprint planning", "2026-03-09", "09:00"),
    ("Team lunch", "2026-03-12", "12:30"),
    ("Design review", "2026-03-12", "15:00"),
    ("Flight to Rome", "2026-03-20", "07:45"),
    ("Quarterly report due", "2026-03-31", "17:00"),
)


def blueprint(service: Service) -> Blueprint:
    """Return the routes ``GET``, ``POST`` and ``DELETE /events``."""
    routes = Blueprint("calendar", __name__)

    @routes.get("/events")
    def events() -> Response:
        values = query(request, "date")
        day = normalised_date(required_text(values, "date", _MAX_DATE_LENGTH)) if "date" in values else None
        world = request_world(request)
        with service.store.reading() as database:
            return jsonify({"date": day, "events": _events(database, world, day)})

    @routes.post("/events")
    def create() -> Response:
        fields = json_object(request, "title", "date", "time", REQUEST_ID)
        query(request)
        event = {
            "title": required_text(fields, "title", _MAX_TITLE_LENGTH),
            "date": normalised_date(required_text(fields, "date", _MAX_DATE_LENGTH)),
            "time": normalised_time(required_text(fields, "time", _MAX_DATE_LENGTH)),
        }
        return write_once(service, request, lambda transaction: _create(transaction, event))

    @routes.delete("/events")
    def delete() -> Response:
        day = normalised_date(required_text(query(request, "date"), "date", _MAX_DATE_LENGTH))
        return write_once(service, request, lambda transaction: _delete(transaction, day))

    return routes


def normalised_date(raw: str) -> str:
    """Return ``2026-3-5`` as ``2026-03-05``. Raises ``ToolError`` for an invalid date."""
    parts = re.fullmatch(r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})", raw)
    if not parts:
        raise bad_value(f"'date' must be YYYY-MM-DD, for example 2026-03-12, not {raw!a}.")
    try:
        return Day(*(int(part) for part in parts.groups())).isoformat()
    except ValueError as error:
        raise bad_value(f"'date' {raw} is not a day of the calendar: {error}.") from None


def normalised_time(raw: str) -> str:
    """Return ``9:05`` as ``09:05``. Raises ``ToolError`` for an invalid time of day."""
    parts = re.fullmatch(r"([0-9]{1,2}):([0-9]{2})", raw)
    if not parts or int(parts[1]) > 23 or int(parts[2]) > 59:
        raise bad_value(f"'time' must be HH:MM from 00:00 to 23:59, for example 09:30, not {raw!a}.")
    return f"{int(parts[1]):02}:{parts[2]}"


def _events(database: sqlite3.Connection, world: str, day: str | None) -> list[dict[str, str]]:
    rows: list[Any] = list(FIXTURES)
    if database.execute("SELECT 1 FROM calendars WHERE world = ?", (world,)).fetchone():
        sql = "SELECT title, date, time FROM events WHERE world = ? ORDER BY date, time, id"
        rows = database.execute(sql, (world,)).fetchall()
    events = [{"title": title, "date": date, "time": time} for title, date, time in rows]
    return [event for event in events if day in (None, event["date"])]


def _create(transaction: Transaction, event: dict[str, str]) -> Answer:
    _seed(transaction)
    _insert(transaction, event["title"], event["date"], event["time"])
    transaction.record("event_created", event)
    return 201, {"event": event}


def _delete(transaction: Transaction, day: str) -> Answer:
    events = _events(transaction.database, transaction.world, day)
    titles = [event["title"] for event in events]
    answer = {"date": day, "count": len(titles), "titles": titles}
    if titles:
        _seed(transaction)
        sql = "DELETE FROM events WHERE world = ? AND date = ?"
        transaction.database.execute(sql, (transaction.world, day))
        # the times show whether a new event restores a deleted one
        transaction.record("events_deleted", answer | {"times": [event["time"] for event in events]})
    return 200, answer


def _seed(transaction: Transaction) -> None:
    """Insert the fixtures as rows at the first change of a world."""
    sql = "INSERT OR IGNORE INTO calendars VALUES (?)"
    if transaction.database.execute(sql, (transaction.world,)).rowcount:
        for title, date, time in FIXTURES:
            _insert(transaction, title, date, time)


def _insert(transaction: Transaction, title: str, date: str, time: str) -> None:
    sql = "INSERT INTO events (world, title, date, time) VALUES (?, ?, ?, ?)"
    transaction.database.execute(sql, (transaction.world, title, date, time))
