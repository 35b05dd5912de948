"""Following a file that another process is writing."""

from __future__ import annotations

import pytest

from wirefault.history.events import Note
from wirefault.history.reader import HistoryError, Tail
from wirefault.history.writer import Writer


def note(message):
    return Note(1.0, "info", message)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "gateway-0.jsonl"


@pytest.fixture
def writer(path):
    opened = Writer(path)
    yield opened
    opened.close()


def append(path, data):
    with path.open("ab") as file:
        file.write(data)


def test_nothing_comes_while_there_is_no_file(path):
    assert Tail(path).read() == []


def test_each_event_comes_once(path, writer):
    tail = Tail(path)
    assert tail.read() == []
    writer.write(note("1"))
    writer.write(note("2\u2028\x85 and more"))
    assert tail.read() == [note("1"), note("2\u2028\x85 and more")]
    assert tail.read() == []
    writer.write(note("3"))
    assert tail.read() == [note("3")]


def test_an_unterminated_line_is_left_for_the_next_time(path, writer):
    tail = Tail(path)
    append(path, b'{"event": "note", "t": 1, "level": "info", ')
    assert tail.read() == []
    append(path, '"message": "é'.encode()[:-1])
    assert tail.read() == []
    append(path, "é".encode()[1:] + b'"}\n{"event"')
    assert tail.read() == [note("é")]


def test_it_goes_on_behind_a_torn_line_that_was_moved_aside(path, writer):
    tail = Tail(path)
    writer.write(note("1"))
    append(path, b'{"event": "no')
    assert tail.read() == [note("1")]
    successor = Writer(path)
    successor.write(note("2"))
    successor.close()
    assert tail.read() == [note("2")]


def test_a_bad_line_is_an_error_with_its_number(path, writer):
    tail = Tail(path)
    for number in range(3):
        writer.write(note(str(number)))
    tail.read()
    writer.write(note("3"))
    writer.write_line("{}")
    with pytest.raises(HistoryError, match=r"gateway-0\.jsonl:5: "):
        tail.read()


def test_a_carriage_return_ends_no_line(path):
    append(path, b'{"event": "note", "t": 1, "level": "info",\r"message": "x"}\r\n')
    assert Tail(path).read() == [note("x")]
