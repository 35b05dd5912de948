"""What a line leaves out, and that its reader has all of it again."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.history.test_history import EVENTS
from wirefault.history.events import Event, ToolTry
from wirefault.history.reader import parse_line
from wirefault.history.usual import dump_unusual, usual_values

FILE = Path("agent-0.jsonl")
TRY = ToolTry("1", 1, "search_web", "search", "f", 1, 1, 1.0, 1.5, 500.0, 1000.0, 200, None, 9, False, None)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.event)
def test_a_line_with_all_fields_is_read_as_one_without_the_usual(event: Event) -> None:
    whole = json.dumps({**asdict(event), "run": "of an earlier version"}).encode()
    assert parse_line(whole, FILE, 1) == parse_line(dump_unusual(event).encode(), FILE, 1) == event


def test_what_is_as_usual_is_left_out_and_nothing_else() -> None:
    usual = usual_values(ToolTry)
    assert {"error", "try_", "write"} < usual.keys() and "status" not in usual and "event" not in usual
    assert json.loads(dump_unusual(TRY)).keys() == asdict(TRY).keys() - usual.keys()


@pytest.mark.parametrize(("field", "value"), [("error", ""), ("try_", 2), ("write", True), ("refused", 1)])
def test_what_is_not_as_usual_is_there(field: str, value: object) -> None:
    event = ToolTry(**{**asdict(TRY), field: value})
    assert json.loads(dump_unusual(event))[field] == value
    assert parse_line(dump_unusual(event).encode(), FILE, 1) == event


def test_a_part_that_is_no_event_of_its_own_is_told_whole() -> None:
    with pytest.raises(TypeError, match="no part of an event"):
        dump_unusual(ToolTry(**{**asdict(TRY), "status": object()}))
