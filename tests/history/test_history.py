"""The history: readers return what the writer wrote, with torn and hostile lines."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import PATIENCE_S, replace
from wirefault.history.events import (
    AttemptArmed,
    AttemptEnded,
    AttemptHealed,
    BudgetSpent,
    BudgetUnknown,
    BudgetWarned,
    ConnectionEnded,
    ConnectionUnanswered,
    EpisodeJudged,
    EpisodeStarted,
    Event,
    Exchange,
    FaultMet,
    FaultsSet,
    InterceptionFailed,
    LateRequest,
    LinkOpened,
    ModelCall,
    Note,
    PipeServer,
    RecoveryTried,
    Report,
    RunFinished,
    RunSealed,
    RunStarted,
    SealedFile,
    SocketMessage,
    SubjectKilled,
    SubjectResumed,
    ToolCalled,
    ToolCallRefused,
    ToolTry,
    ToxicsChanged,
    TurnStarted,
    WentPastLab,
    WorldProbed,
    WorldRead,
)
from wirefault.history.judged_events import FaultRecord
from wirefault.history.lines import event_start, first_break, origin
from wirefault.history.logs import strip_control
from wirefault.history.reader import HistoryError, parse_line, read_file, read_history, read_run
from wirefault.history.writer import Writer, history_file
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.wiring.links import Link

LATENCY = PlannedToxic("search", "latency", "upstream", {"latency": 300, "jitter": 0})
CALL = ToolCalled(1.0, "1-1", 1, 1, 0, "search_web", "search", {"q": "a"}, "f", 1, 2, True, "none", "found")
TRY = ToolTry("1-1", 1, "search_web", "search", "f", 1, 1.0, 1.5, 500.0, 1000.0, 200, 9)
EVENTS = [
    RunStarted(1.0, "r", "lab", 0, 7, {"toxic_prob": 0.3, "toxics": "down"}, "subject", 24),
    EpisodeStarted(1.0, "1-1", "What is it?", {"values": [{"number": 1}]}),
    EpisodeStarted(1.0, "2-1", "What is it?", None),
    AttemptArmed(1.0, "1-1", 1, 2.5, [LATENCY]),
    ModelCall(1.0, "1-1", 1, 1, 20.0, None, error="ReadTimeout"),
    TRY,
    CALL,
    ToolCallRefused(1.0, "1-1", 1, 1, 0, "search_v2", '{"q": "a', "malformed", "cut off"),
    RecoveryTried(1.0, "1-1", 1, "retry", 2, True, 0.1, "idempotency key", "search", 1),
    SubjectKilled(1.0, "1-1", 1, 1, "shop", "crash", "before_reply", "kill", True, 12.5),
    SubjectResumed(1.0, "1-1", 1, 1, "python agent.py"),
    RecoveryTried(1.0, "1-1", 1, "checkpoint", 1, False, 0.1, ""),
    AttemptEnded("1-1", 1, 1.0, 2.0, 1000.0, "report", "42", report=Report("done", "42", [{"value": 42}])),
    AttemptEnded("1-1", 1, 1.0, 2.0, 1000.0, "exception", "", error_type="KeyError", error="'x'"),
    AttemptHealed(1.0, "1-1", 1, None, "not armed in time"),
    TurnStarted(1.0, "1-1", 1, 2),
    WentPastLab(1.0, "1-1", 1, "93.184.216.34", 443, "tcp", "node", 2),
    WorldRead(1.0, "1-1", [{"kind": "message_sent", "fields": {"to": "Bob"}}]),
    WorldProbed(1.0, "1-1", "after", 1e12),
    WorldProbed(1.0, "1-1", "before", None, "the reset failed: no"),
    EpisodeJudged(
        1.0,
        "1-1",
        "success",
        "as_asked",
        "done",
        "right",
        1,
        "success",
        flags=["late"],
        faults=(FaultRecord(0, "", "toxic", "down", "search", 1, "armed", None, "caller"),),
    ),
    RunFinished(9.0, True, "", None),
    RunSealed({"gateway-0.jsonl": SealedFile(3, "ab")}),
    Note(1.0, "warning", "mind"),
    Exchange(
        1.0,
        "1-1",
        1,
        "search",
        "GET",
        "/serp",
        1,
        0.5,
        503,
        90,
        80,
        fingerprint="f",
        identity="counted",
        forwarded=False,
        faults=[FaultMet("a", "delay", True, None, "", 5.0, {"delay_ms": 5.0}, {"was": [1]}, True)],
        configuration=2,
        error="the client left",
    ),
    FaultsSet(1.0, "1-1", 1, 2, "{}", ["a"]),
    BudgetWarned(1.0, "1-1", 1, "episode.tokens", 800, 1000),
    BudgetSpent(1.0, "1-1", 1, "run.cost", 5.01, 5.0, True),
    BudgetUnknown(1.0, "1-1", 1, "run.cost", "no_price", "gpt-x"),
    LinkOpened(1.0, "1-1", 1, Link("shop"), [PlannedToxic("shop", "latency", "upstream", {})]),
    ToxicsChanged(1.0, "1-1", 1, "armed", [{"link": "search"}]),
    ConnectionEnded(
        *(2.0, "search", "1-1", 1, 1.0, 1000.0, 3.0, 517, 1200),
        *("client", "fin", True, "search.example", 443, "proxy"),
    ),
    ConnectionUnanswered(1.0, "1-1", 1, "shop", 400.0, 20, "fin"),
    InterceptionFailed(1.0, "1-1", 1, "shop", "shop.example", "authority_refused", "unknown ca"),
    PipeServer(1.0, "1-1", 1, "python server.py"),
    LateRequest(1.0, "2-1", 1, "calendar", "1-1", 1, True),
    SocketMessage(
        1.0, "1-1", 1, "voice", 1, "server", 3, "text", 20, "response.done", "dropped", "ws_drop", "{}"
    ),
]


@pytest.fixture
def path(tmp_path):
    return history_file(tmp_path, "run-1", "agent", 0)


def write(path, *events):
    writer = Writer(path)
    for event in events:
        writer.write(event)
    writer.close()


def note(message):
    return Note(1.0, "info", message)


def test_each_event_is_tested_and_has_unique_name():
    assert {type(event) for event in EVENTS} == set(get_args(Event))
    names = [event_start(kind) for kind in get_args(Event)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.event)
def test_event_round_trips(path, event):
    write(path, event)
    assert list(read_file(path)) == [event]


def test_events_keep_order_over_writers(path):
    write(path, *EVENTS[:5])
    write(path, *EVENTS[5:])
    assert list(read_file(path)) == EVENTS


TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(TEXT, st.dictionaries(TEXT, JSON))
def test_arbitrary_text_and_arguments_round_trip(tmp_path_factory, result, arguments):
    path = tmp_path_factory.mktemp("any") / "agent-0.jsonl"
    event = replace(CALL, result=result, arguments=arguments)
    write(path, event)
    assert list(read_file(path)) == [event]
    assert path.read_bytes().count(b"\n") == 1


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\udc80\ud800", "\\ud800"])
def test_lone_surrogate_keeps_line_readable(path, text):
    write(path, note(text), replace(CALL, arguments={text: text}))
    events, call = read_file(path)
    assert events.message == text.encode("utf-8", "replace").decode()
    assert list(call.arguments) == [events.message]


@pytest.mark.parametrize(
    ("number", "recorded"), [("NaN", None), ("Infinity", None), ("1e400", None), ("9" * 40, int("9" * 40))]
)
def test_number_that_json_lacks_is_null(path, number, recorded):
    write(path, replace(CALL, arguments={"n": json.loads(number)}))
    [call] = read_file(path)
    assert call.arguments["n"] == recorded


def test_huge_line_is_complete(path):
    write(path, note("é" * 3_000_000), note("next"))
    assert [len(event.message) for event in read_file(path)] == [3_000_000, 4]


def test_threads_do_not_mix_lines(path):
    writer = Writer(path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: writer.write(note(f"{n} " + "x" * 20_000)), range(200)))
    writer.close()
    assert sorted(int(event.message.split()[0]) for event in read_file(path)) == list(range(200))


def test_two_writers_append_whole_lines(path):
    writers = [Writer(path), Writer(path)]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda n: writers[n % 2].write(note(f"{n}")), range(400)))
    for closing in writers:
        closing.close()
    assert len(list(read_file(path))) == 400


def test_closing_twice_does_no_harm(path):
    writer = Writer(path)
    writer.write(TRY)
    writer.close()
    writer.close()
    assert list(read_file(path)) == [TRY]


def test_torn_line_is_not_returned(path):
    write(path, note("whole"))
    with path.open("ab") as file:
        file.write(b'{"t": 1.0, "eve')
    assert list(read_file(path)) == [note("whole")]


@pytest.mark.parametrize("rest", [b'{"t": 1', b"\xff\xfe", b"x", b"{}"])
def test_next_writer_moves_torn_line_and_readers_count_one(path, tmp_path, rest):
    write(path, note("whole"))
    with path.open("ab") as file:
        file.write(rest)
    write(path, note("next"))
    history = read_history(tmp_path, "run-1")
    assert (history.events(), history.torn) == ([note("whole"), note("next")], 1)
    assert path.with_name("agent-0.jsonl.torn").read_bytes() == rest + b"\n"


def test_every_torn_line_is_counted(path, tmp_path):
    for number in range(3):
        write(path, note(f"{number}"))
        with path.open("ab") as file:
            file.write(b'{"t"')
    history = read_history(tmp_path, "run-1")
    assert (len(history.events()), history.torn) == (3, 3)


def test_file_with_only_torn_line_restarts(path):
    path.parent.mkdir(parents=True)
    path.write_bytes(b'{"t"')
    write(path, note("first"))
    assert list(read_file(path)) == [note("first")]


KILLED = """
import sys
from pathlib import Path
from wirefault.history.events import Note
from wirefault.history.writer import Writer
writer = Writer(Path(sys.argv[1]))
while True:
    writer.write(Note(1.0, "info", "x" * 100_000))
    print(flush=True)
"""


@pytest.mark.slow
def test_writer_killed_at_any_moment_leaves_whole_lines(path):
    with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE) as child:
        for _ in range(5):
            child.stdout.readline()
        child.send_signal(signal.SIGKILL)
    write(path, note("successor"))
    *before, last = read_file(path)
    assert len(before) >= 5 and last == note("successor")


FULL = f"""
import resource, sys
from pathlib import Path
from wirefault.history.events import Note
from wirefault.history.writer import Writer
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, {resource.RLIM_INFINITY}))
writer = Writer(Path(sys.argv[1]))
try:
    writer.write(Note(1.0, "info", "x" * 2000))
except OSError as error:
    print(error)
"""


@pytest.mark.slow
def test_full_disk_is_reported(path):
    child = subprocess.run(
        [sys.executable, "-c", FULL, str(path)], capture_output=True, text=True, timeout=PATIENCE_S
    )
    assert "wrote only 1000 of" in child.stdout


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b"not json",
        b'{"event": "note"}',
        b'{"event": "nonsense", "t": 1}',
        b'{"event": "note", "t": "soon", "level": "info", "message": ""}',
        b'{"event": "note", "t": 1, "level": "loud", "message": ""}',
        b'{"event": "note", "t": 1, "level": "info", "message": "\xff"}',
        b'{"event": "note", "t": 1, "level": "info", "message": "half',
        b"[" * 5000,
    ],
)
def test_bad_line_is_error_with_file_and_number(path, line):
    write(path, note("1"), note("2"))
    with path.open("ab") as file:
        file.write(line + b"\n")
    write(path, note("4"))
    with pytest.raises(HistoryError, match=r"agent-0\.jsonl:3: not an event: ") as caught:
        list(read_file(path))
    assert len(str(caught.value)) < 700 + len(str(path))


def test_line_error_names_field(path):
    with pytest.raises(HistoryError, match=r":7: not an event: .*\$\.level"):
        parse_line(b'{"event": "note", "t": 1, "level": "loud", "message": ""}', path, 7)


def test_line_over_the_bound_is_error(path, monkeypatch):
    monkeypatch.setattr("wirefault.history.reader._MAX_LINE_LENGTH", 100)
    with pytest.raises(HistoryError, match=r":7: not an event: a line of 101 bytes"):
        parse_line(b" " * 101, path, 7)


def test_version_that_reads_an_older_form_is_named(path, tmp_path):
    write(path, replace(EVENTS[0], versions={"wirefault": "0.1.9"}))
    writer = Writer(path)
    writer.write_lines([b'{"event":"of an older form"}'])
    writer.close()
    with pytest.raises(HistoryError, match=r":2: not an event: .*; Wirefault 0\.1\.9 recorded it"):
        read_run(tmp_path, "run-1")


def test_run_is_read_file_by_file(tmp_path):
    for process, lane in [("manager", 0), ("agent", 1), ("agent", 0), ("gateway", 0)]:
        write(history_file(tmp_path, "run-1", process, lane), note(f"{process}-{lane}"))
    write(history_file(tmp_path, "run-2", "agent", 0), note("of another run"))
    messages = [event.message for event in read_run(tmp_path, "run-1")]
    assert messages == ["agent-0", "agent-1", "gateway-0", "manager-0"]


def test_missing_run_is_error(tmp_path):
    with pytest.raises(HistoryError, match="no-such: not the history of a run"):
        read_run(tmp_path, "no-such")


@pytest.mark.parametrize(
    ("text", "stripped"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("\x1b[31mred\x1b[0m\x07", "[31mred[0m"),
        ("\x9b2Jcleared\x7f\x00", "2Jcleared"),
        ("over\rwritten\x0b\x0c\x85", "overwritten"),
        ("\u202eback\u2066wards\u2069", "backwards"),
        ("half \ud800", "half "),
        ("naïve 日本 🙂 \u200d", "naïve 日本 🙂 \u200d"),
    ],
)
def test_control_sequences_are_stripped(text, stripped):
    assert strip_control(text) == stripped


@given(st.text())
def test_stripped_text_can_be_printed(text):
    stripped = strip_control(text)
    assert stripped.encode().decode() == stripped
    assert strip_control(stripped) == stripped


def test_history_file_mode_follows_umask(path):
    old = os.umask(0o022)
    try:
        write(path, note("x"))
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("reached_disk", [True, False])
def test_interrupted_write_keeps_the_chain(path, monkeypatch, reached_disk):
    """A signal's exception comes just before or just after the write."""
    writer = Writer(path)
    write_to_disk = os.write

    def interrupted(file: int, data: bytes) -> int:
        if reached_disk:
            write_to_disk(file, data)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("wirefault.history.writer.os.write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            writer.write(note("first"))
    writer.write(note("second"))
    writer.close()
    assert [event.message for event in read_file(path)] == ["first", "second"][not reached_disk :]
    lines = path.read_bytes().splitlines()
    assert first_break(lines, origin(path.parent.name, path.name)) is None
