"""``agent.log`` and ``info.log``, as a reader finds them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from wirefault.history.events import (
    AttemptArmed,
    AttemptEnded,
    FaultsSet,
    Note,
    RecoveryTried,
    Report,
    RunFinished,
    ToolCalled,
    ToolCallRefused,
    ToolTry,
)
from wirefault.history.logs import JsonLog, Logs, agent_line, iso, log_error
from wirefault.toxiproxy.planned import PlannedToxic

TOXICS = [
    PlannedToxic("search", "latency", "upstream", {"latency": 300}),
    PlannedToxic("movie", "timeout", "downstream", {"timeout": 400}),
]
TRY = ToolTry(
    "1-1", 2, "search_web", "search", "f", 1, 1.0, 1.5, 500.25, 1000.0, None, 0, try_=3, error="read_timeout"
)
ENDED = AttemptEnded("1-1", 2, 1.0, 2.0, 1234.5678, "report", "answer", report=Report("unsure", "x"))


def call(fallback_used, ok=True):
    return ToolCalled(
        1.0,
        "1-1",
        1,
        1,
        0,
        "get_weather",
        "weather",
        {},
        "f",
        1,
        2,
        ok,
        "none",
        "",
        fallback_used=fallback_used,
    )


@pytest.fixture
def log_lines(tmp_path):
    """Tells events; the lines of info.log that they made."""

    def emit(*events):
        logs = Logs(tmp_path / "logs", "run-1")
        for event in events:
            logs.tell(event)
        logs.close()
        return lines(tmp_path / "logs" / "info.log")

    return emit


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def test_network_line_describes_one_try(log_lines):
    [line] = log_lines(TRY)
    assert (line["event"], line["tool"], line["try"], line["error"]) == (
        "network",
        "search_web",
        3,
        "read_timeout",
    )
    assert line["network_start"] == "1970-01-01T00:00:01.000+00:00"
    assert line["network_end"] == "1970-01-01T00:00:01.500+00:00"
    assert line["network_latency"] == 0.50025
    assert "read_timeout" in line["message"]


def test_each_armed_toxic_is_fault_line(log_lines):
    one, other = log_lines(AttemptArmed(1.0, "1-1", 1, 2.0, TOXICS))
    assert (one["event"], one["link"], one["kind"], one["stream"]) == (
        "fault",
        "search",
        "latency",
        "upstream",
    )
    assert one["attributes"] == {"latency": 300}
    assert other["link"] == "movie"


def test_only_fallback_call_is_logged(log_lines):
    [line] = log_lines(call(False), call(True, ok=False))
    assert (line["event"], line["tool"], line["ok"]) == ("fallback", "get_weather", False)


def test_end_of_attempt_has_line(log_lines):
    [line] = log_lines(ENDED)
    assert (line["event"], line["episode"], line["attempt"]) == ("request_processed", "1-1", 2)
    assert (line["ended_by"], line["duration"]) == ("report", 1.2346)


@pytest.mark.parametrize("level", ["info", "warning", "error"])
def test_notes_keep_their_level(log_lines, level):
    assert [(line["event"], line["message"]) for line in log_lines(Note(1.0, level, "mind"))] == [
        (level, "mind")
    ]


def test_other_events_make_no_line(log_lines):
    assert log_lines(RunFinished(1.0, True, "", 0)) == []


REFUSED = ToolCallRefused(5.0, "1-1", 1, 1, 0, "get_wether", "{}", "unknown_tool", "no such tool")
SET = FaultsSet(6.0, "1-1", 1, 1, "{}", ["a"])


def test_recovery_line_has_strategy_and_what_was_preserved(log_lines):
    event = RecoveryTried(1.0, "1-1", 1, "retry", 2, True, 0.25, "idempotency key", "calendar", 1)
    [line] = log_lines(event)
    assert line["event"] == "recovery" and line["success"] is True and line["strategy"] == "retry"
    assert line["message"] == ("retry 2 on calendar: recovered after 0.25 s; preserved: idempotency key")


def test_every_line_has_time_event_message_and_run(log_lines):
    events = [TRY, AttemptArmed(1.0, "1-1", 1, 2.0, TOXICS), call(True), ENDED, Note(4.0, "info", "x")]
    logged = log_lines(*events, REFUSED, SET)
    assert all(line["run_id"] == "run-1" and line["event"] and line["message"] for line in logged)
    assert [line["time"] for line in logged] == [iso(t) for t in (1.5, 1.0, 1.0, 1.0, 2.0, 4.0, 5.0, 6.0)]


def test_line_without_event_has_time_of_writing(tmp_path):
    logs = Logs(tmp_path, "run-1", clock=lambda: 7.0)
    logs.line("summary", "run summary", summary={})
    logs.close()
    assert [line["time"] for line in lines(tmp_path / "info.log")] == [iso(7.0)]
    assert log_error(tmp_path, "bad") is None
    assert lines(tmp_path / "info.log")[1]["time"] > "2020"


@pytest.mark.parametrize("text", ["\x1b[2J\nnext", "\ud800", "\u2028", 'quote " and \\'])
def test_hostile_text_stays_on_one_line_and_off_console(log_lines, text):
    [line] = log_lines(Note(1.0, "info", f"a{text}b"))
    assert "\x1b" not in line["message"] and line["message"].startswith("a")


def test_later_run_appends(log_lines):
    log_lines(Note(1.0, "info", "first"))
    assert [line["message"] for line in log_lines(Note(1.0, "info", "second"))] == ["first", "second"]


def test_shared_writers_do_not_mix_lines(tmp_path):
    logs = [JsonLog(tmp_path / "info.log") for _ in range(4)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: logs[n % 4].write({"n": n, "x": "é" * 5000}), range(400)))
    for log in logs:
        log.close()
        log.close()  # once more does no harm
    assert sorted(line["n"] for line in lines(tmp_path / "info.log")) == list(range(400))


def test_agent_log_line_has_documented_fields():
    line = agent_line("run-1", "What?", ENDED, "unconfirmed")
    assert list(line) == [
        *("run_id", "episode", "prompt", "response", "status", "outcome"),
        *("error_type", "error", "error_class"),
        *("start_time", "end_time", "duration", "prompt_attempt_no"),
    ]
    assert (line["prompt"], line["response"], line["status"]) == ("What?", "answer", "unsure")
    assert (line["outcome"], line["prompt_attempt_no"], line["duration"]) == ("unconfirmed", 2, 1.2346)


def test_agent_log_strips_control_sequences_from_model():
    ended = AttemptEnded("1-1", 1, 1.0, 2.0, 1.0, "text", "\x9b2Jgone\u202e\ud800")
    line = agent_line("run-1", "What\x1b[0m?", ended, None)
    assert (line["prompt"], line["response"]) == ("What[0m?", "2Jgone")


def test_status_without_report_is_end_reason():
    ended = AttemptEnded("1-1", 1, 1.0, 2.0, 1.0, "exception", "", error_type="KeyError", error="'x'")
    line = agent_line("run-1", "What?", ended, None)
    assert (line["status"], line["error_type"], line["outcome"]) == ("exception", "KeyError", None)


def test_agent_log_names_error_and_its_class():
    ended = AttemptEnded(
        "1-1",
        1,
        1.0,
        2.0,
        1.0,
        "exception",
        "",
        error_type="ReadTimeout",
        error="timed\x1b out",
        error_class="network",
    )
    line = agent_line("run-1", "What?", ended, None)
    assert (line["error_type"], line["error"], line["error_class"]) == ("ReadTimeout", "timed out", "network")
    without = agent_line("run-1", "What?", ENDED, "success")
    assert (without["error"], without["error_class"]) == (None, "none")


def test_times_are_utc_milliseconds():
    text = iso(1_700_000_000.1239)
    assert text == "2023-11-14T22:13:20.123+00:00"
    assert datetime.fromisoformat(text).tzinfo == UTC
