"""The chain through a file's lines: detection of breaks, and continuation by a successor."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import asdict, fields, replace

from tests.history.test_history import EVENTS
from wirefault.history.events import Event, Note, ToolTry
from wirefault.history.lines import (
    ChainBreak,
    dump_event,
    first_break,
    line_hash,
    linked,
    origin,
    unlinked,
)
from wirefault.history.reader import parse_line
from wirefault.history.writer import Writer

START = origin("run-1", "agent-0.jsonl")


def chain(count: int) -> list[bytes]:
    lines, after = linked((b'{"message":"%d"}' % number for number in range(1, count + 1)), 1, START)
    assert after == (line_hash(lines[-1]) if lines else START)
    return lines


def broken(lines: list[bytes]) -> tuple[int, str]:
    break_at = first_break(lines, START)
    assert break_at is not None
    return break_at.line, break_at.what.split(":")[0]


def test_written_chain_is_intact():
    assert first_break(chain(5), START) is None
    assert first_break([], START) is None


def test_record_on_line_is_unchanged():
    for number in (1, 9_999_999_999_999_999):
        [line], _ = linked([b'{"a":1}'], number, START)
        assert unlinked(line) == b'{"a":1}'
    assert unlinked(b'{"a":1}') is None


@given(st.data())
def test_changed_byte_before_last_line_is_detected(data):
    lines = chain(4)
    place = data.draw(st.integers(0, 2))
    at = data.draw(st.integers(0, len(lines[place]) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != lines[place][at]))
    lines[place] = lines[place][:at] + bytes([other]) + lines[place][at + 1 :]
    assert first_break(lines, START) is not None


def test_chain_break_names_line():
    one, two, three, four = chain(4)
    assert broken([one, two.replace(b'"2"', b'"9"'), three, four]) == (2, "altered")
    assert broken([one, three, four]) == (2, "lost")
    assert broken([two, three]) == (1, "lost")
    assert broken([one, two, two, three]) == (3, "duplicate of line 2")
    assert broken([one, two, three, one, four]) == (4, "duplicate of line 1")
    assert broken([one, b"{}", two]) == (2, "altered or inserted")
    assert broken([one, b"", two]) == (2, "altered or inserted")
    [forged], _ = linked([b'{"message":"forged"}'], 2, START)
    assert broken([one, two, forged, three]) == (3, "inserted or moved")


def test_lines_of_other_file_or_run_break_chain():
    for start in (origin("run-2", "agent-0.jsonl"), origin("run-1", "agent-1.jsonl")):
        assert first_break(chain(2), start) == ChainBreak(
            1, "of another file or run: was it moved, or the run's folder renamed?"
        )


@pytest.mark.parametrize("torn", [b"", b'{"t":1.0,"mess', b"x"])
def test_successor_continues_chain_over_torn_line(tmp_path, torn):
    path = tmp_path / "run-1" / "agent-0.jsonl"
    for number in range(3):
        writer = Writer(path)
        writer.write_lines([b'{"message":"%d"}' % number, b'{"message":"%d, too"}' % number])
        writer.close()
        with path.open("ab") as file:
            file.write(torn)
    *lines, rest = path.read_bytes().split(b"\n")
    assert first_break(lines, START) is None
    assert (len(lines), rest) == (6, torn)


def test_writer_stops_after_cut_line(tmp_path, monkeypatch):
    path = tmp_path / "run-1" / "agent-0.jsonl"
    writer = Writer(path)
    writer.write(Note(1.0, "info", "whole"))
    with monkeypatch.context() as full:
        full.setattr("wirefault.history.writer.os.write", lambda file, data: len(data) - 1)
        with pytest.raises(OSError, match="the disk is full: wrote only"):
            writer.write(Note(1.0, "info", "cut"))
    with pytest.raises(OSError, match="the disk is full: wrote only"):
        writer.write(Note(1.0, "info", "next"))
    writer.close()
    assert first_break(path.read_bytes().splitlines(), START) is None


FILE = Path("agent-0.jsonl")
TRY = ToolTry("1", 1, "search_web", "search", "f", 1, 1.0, 1.5, 500.0, 1000.0, 200, 9)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.event)
def test_full_line_equals_shortened_line(event: Event) -> None:
    whole = json.dumps(
        {**asdict(event), "event": event.event, "run": "of an earlier version"}, default=_fields
    )
    assert parse_line(whole.encode(), FILE, 1) == parse_line(dump_event(event), FILE, 1) == event


def _fields(part: object) -> object:
    return asdict(part) if isinstance(part, Struct) else dataclasses.asdict(part)


def test_only_usual_values_are_omitted() -> None:
    usual = {field.name for field in fields(ToolTry) if not field.required}
    assert {"error", "try_", "write"} < usual and "status" not in usual
    assert json.loads(dump_event(TRY)).keys() == {"event"} | asdict(TRY).keys() - usual


@pytest.mark.parametrize(("field", "value"), [("error", ""), ("try_", 2), ("write", True), ("refused", 1)])
def test_unusual_values_are_present(field: str, value: object) -> None:
    event = replace(TRY, **{field: value})
    assert json.loads(dump_event(event))[field] == value
    assert parse_line(dump_event(event), FILE, 1) == event


def test_non_event_value_is_error() -> None:
    with pytest.raises(TypeError, match="object is unsupported"):
        dump_event(replace(TRY, status=object()))


def test_lone_surrogate_is_replaced() -> None:
    assert b'"message":"a?"' in dump_event(Note(1.0, "info", "a\ud800"))
