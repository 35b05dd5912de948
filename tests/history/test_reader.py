"""Links found during a run complete its first event."""

from __future__ import annotations

import pytest

from tests.judging.oracle.histories import armed, exchange, run_started, started
from tests.support import replace
from wirefault.history import reader
from wirefault.history.events import (
    AttemptArmed,
    ConnectionEnded,
    ConnectionUnanswered,
    Exchange,
    InterceptionFailed,
    LateRequest,
    LinkOpened,
    Note,
    RunStarted,
    ToxicsChanged,
    WentPastLab,
)
from wirefault.history.lines import dump_event
from wirefault.history.reader import (
    GrowingRun,
    HistoryError,
    Tail,
    parse_line,
    read_history,
    read_run,
    with_found_links,
    with_ids,
)
from wirefault.history.writer import Writer, history_file
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.wiring.links import found_link

SHOP = found_link("shop.example.com", 443, "https", ())
TOXIC = PlannedToxic("shop_example_com", "latency", "upstream", {"latency": 300})
EVENTS = [
    RunStarted(0.0, "r", "lab-1", 0, 7, {}, "command", 2, links=[]),
    AttemptArmed(1.0, "a", 1, 3.0, []),
    AttemptArmed(3.0, "b", 1, 3.0, []),
    LinkOpened(2.0, "a", 1, SHOP, [TOXIC]),
]


def test_run_gets_link_and_attempt_gets_toxics():
    started, first, second, _ = with_found_links(EVENTS)
    assert started.wired.names == ("shop_example_com",)
    assert (first.toxics, second.toxics) == ([TOXIC], [])


def test_mcp_request_sets_link_dialect():
    request = Exchange(
        2.5, "a", 1, SHOP.name, "POST", "/mcp", 1, 1.0, 200, 9, 9, fingerprint="f", identity="counted"
    )
    late = replace(request, dialect="mcp")
    started, *_ = with_found_links([*with_found_links([*EVENTS, request]), late])
    assert [link.dialect for link in started.wired] == ["mcp"]


@pytest.mark.parametrize("dialects", [["http", "anthropic"], ["mcp", "anthropic"], ["anthropic", "mcp"]])
def test_model_request_makes_link_a_model_link(dialects):
    request = Exchange(2.5, "a", 1, SHOP.name, "POST", "/v1/messages", 1, 1.0, 200, 9, 9, identity="counted")
    started, *_ = with_found_links([*EVENTS, *(replace(request, dialect=dialect) for dialect in dialects)])
    [link] = started.wired
    assert (link.dialect, link.is_model, link.dialect_by_request) == ("anthropic", True, True)


def test_second_call_changes_nothing():
    once = with_found_links(EVENTS)
    assert with_found_links(once) == once


def test_run_without_found_links_is_unchanged():
    assert with_found_links(EVENTS[:3]) == EVENTS[:3]


PAST_LAB = WentPastLab(103.0, "001", 1, "shop.example", 443, "tcp", "node", 1)
FILES = {
    "agent": [run_started(), PAST_LAB, started(), armed()],
    "gateway": [
        exchange(call=1),
        InterceptionFailed(103.0, "001", 1, "shop", "shop.example", "authority_refused"),
        exchange(call=2),
        ConnectionUnanswered(103.0, "001", 1, "shop", 400.0, 20, "fin"),
        LateRequest(103.0, "001", 1, "shop", "002", 1, True),
        replace(PAST_LAB, link="shop", only_http2=True, sent=9, received=0),
        exchange(call=3),
    ],
    "manager": [ToxicsChanged(102.0, "001", 1, "armed", [])],
    "ingress": [
        ConnectionEnded(
            *(103.0, "search", "001", 1, 102.0, 900.0, None, 200, 0),
            *("proxy", "rst", True, "search.example", 443, "namespace"),
        ),
        replace(PAST_LAB, sent=9, received=0),
        replace(PAST_LAB, only_http2=True, sent=9, received=0),
    ],
}


def test_id_leads_to_event(tmp_path):
    for process, events in FILES.items():
        writer = Writer(history_file(tmp_path, "run-1", process, 0))
        for event in events:
            writer.write(event)
        writer.close()
    history = read_history(tmp_path, "run-1")
    identified = list(with_ids(history.events()))
    assert len(identified) == sum(map(len, FILES.values()))
    for id, event in identified:
        assert parse_line(history.line(id), history.folder, 0) == event


def test_order_of_files_does_not_matter():
    mixed = [event for events in FILES.values() for event in events]
    own = len(FILES["agent"])
    assert dict(with_ids(mixed)) == dict(with_ids([*mixed[own:], *mixed[:own]]))


def note(message):
    return Note(1.0, "info", message)


@pytest.fixture
def path(tmp_path):
    file = history_file(tmp_path, "r", "gateway", 0)
    file.parent.mkdir(parents=True)
    return file


@pytest.fixture
def writer(path):
    opened = Writer(path)
    yield opened
    opened.close()


def append(path, data):
    with path.open("ab") as file:
        file.write(data)


def test_missing_file_has_no_events(path):
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


def test_unterminated_line_waits(path, writer):
    tail = Tail(path)
    append(path, b'{"event": "note", "t": 1, "level": "info", ')
    assert tail.read() == []
    append(path, '"message": "é'.encode()[:-1])
    assert tail.read() == []
    append(path, "é".encode()[1:] + b'"}\n{"event"')
    assert tail.read() == [note("é")]


def test_replaced_file_is_named(path, writer):
    tail = Tail(path)
    writer.write(note("1"))
    assert tail.read() == [note("1")]
    path.rename(path.with_name("moved"))
    append(path, b"a line of another file, longer than the first file\n")
    with pytest.raises(HistoryError, match=rf"{path.name} was replaced while a process of the lab wrote it"):
        tail.read()


def test_reader_continues_after_moved_torn_line(path, writer):
    tail = Tail(path)
    writer.write(note("1"))
    append(path, b'{"event": "no')
    assert tail.read() == [note("1")]
    successor = Writer(path)
    successor.write(note("2"))
    successor.close()
    assert tail.read() == [note("2")]


def test_bad_line_is_error_with_its_number(path, writer):
    tail = Tail(path)
    for number in range(3):
        writer.write(note(str(number)))
    tail.read()
    writer.write(note("3"))
    writer.write_lines([b"{}"])
    with pytest.raises(HistoryError, match=r"gateway-0\.jsonl:5: "):
        tail.read()


def test_carriage_return_does_not_end_line(path):
    append(path, b'{"event": "note", "t": 1, "level": "info",\r"message": "x"}\r\n')
    assert Tail(path).read() == [note("x")]


def test_growing_run_is_parsed_once(path, writer, monkeypatch):
    parsed = []

    def counted(line, *place):
        parsed.append(line)
        return parse_line(line, *place)

    monkeypatch.setattr(reader, "parse_line", counted)
    growing = GrowingRun(path.parents[2], path.parent.name)
    assert growing.since(0) == []
    writer.write(note("1"))
    assert growing.since(0) == [("gateway-0:1", note("1"))]
    writer.write(note("2"))
    assert growing.events() == [note("1"), note("2")] and len(parsed) == 2
    assert growing.since(1) == [("gateway-0:2", note("2"))] and len(parsed) == 2


def test_growing_run_sees_what_was_altered(path, writer):
    growing = GrowingRun(path.parents[2], path.parent.name)
    for text in "12":
        writer.write(note(text))
    growing.since(0)
    path.write_bytes(path.read_bytes().replace(dump_event(note("1"))[:-1], dump_event(note("3"))[:-1]))
    assert growing.events() == read_run(path.parents[2], path.parent.name) == [note("3"), note("2")]
    path.unlink()
    successor = Writer(path)
    successor.write(note("4"))
    successor.close()
    assert growing.events() == [note("4")]
