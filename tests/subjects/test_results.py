"""Origin of an exception that ended an attempt: network, server or agent."""

from __future__ import annotations

import urllib.error
from dataclasses import replace
from email.message import Message
from pathlib import Path
from typing import Any

import groq
import httpx
import pytest
import requests

from tests.subjects.wired import Wired
from wirefault.subjects.results import answer_result, converse, crash_result, read_report
from wirefault.subjects.subject import AttemptContext, ChatMessage

REQUEST = httpx.Request("POST", "http://model/v1")
REPLY = httpx.Response(503, request=REQUEST)


def _from(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "error_class"),
    [
        (groq.APIConnectionError(request=REQUEST), "network"),
        (groq.APITimeoutError(request=REQUEST), "network"),
        (groq.InternalServerError("busy", response=REPLY, body=None), "server"),
        (groq.APIError("overloaded", request=REQUEST, body=None), "server"),
        (httpx.ReadTimeout("timed out"), "network"),
        (httpx.RemoteProtocolError("closed"), "network"),
        (httpx.HTTPStatusError("503", request=REQUEST, response=REPLY), "server"),
        (requests.ConnectionError("refused"), "network"),
        (requests.ReadTimeout("timed out"), "network"),
        (requests.HTTPError("503"), "server"),
        (urllib.error.HTTPError("http://tool", 503, "busy", Message(), None), "server"),
        (urllib.error.URLError("no such host"), "network"),
        (ConnectionResetError(104, "reset"), "network"),
        (TimeoutError("timed out"), "network"),
        (_from(RuntimeError("the tool failed"), requests.ConnectionError("refused")), "network"),
        (KeyError("city"), "agent"),
        (FileNotFoundError(2, "no such file"), "agent"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value,
)
def test_exception_class(error: Exception, error_class: str) -> None:
    crash = crash_result(error)
    assert (crash.ended_by, crash.error_type) == ("exception", type(error).__name__)
    assert (crash.error, crash.error_class) == (str(error), error_class)


def test_memory_error_shows_through_the_clients_own_exception() -> None:
    error = ConnectionError("Connection error.")
    error.__cause__ = MemoryError()
    result = crash_result(error)
    assert (result.error_type, result.error_class) == ("MemoryError", "agent")
    assert result.error == "its process ran out of memory"


def test_circular_causes_terminate() -> None:
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert crash_result(first).error_class == "agent"


DONE = '{"status": "done", "answer": "It is {42}.", "values": [{"value": 42, "unit": null}]}'


@pytest.mark.parametrize(
    "answer",
    [
        DONE,
        f"Thinking of {{x}}.\n{DONE}\n",
        f"```json\n{DONE}\n```",
        f"First ```{DONE}``` and then:\n```\n{DONE}```\n",
    ],
)
def test_report_at_end_is_read(answer: str) -> None:
    report = read_report(answer)
    assert report is not None
    assert (report.status, report.answer, report.values) == (
        "done",
        "It is {42}.",
        [{"value": 42, "unit": None}],
    )


@pytest.mark.parametrize(
    "answer",
    [
        f"{DONE} That is all.",
        "It is 42.",
        "}",
        "{" * 100_000 + "}",
        '{"status": "maybe", "answer": "x"}',
        '{"status": "done"}',
        '{"status": "done", "answer": "x", "values": 3}',
        '{"status": "done", "answer": "x", "values": [{"value": true}]}',
        '{"status": "done", "answer": "x", "values": [{"value": NaN}]}',
        '{"status": "done", "answer": "x", "values": [{"value": 1, "unit": 2}]}',
        '{"status": "done", "answer": "x", "values": [{"amount": 1}]}',
        '[{"status": "done", "answer": "x"}]',
    ],
)
def test_invalid_report_is_text(answer: str) -> None:
    assert read_report(answer) is None
    assert (answer_result(answer).ended_by, answer_result(answer).response) == ("text", answer.strip())


@pytest.mark.parametrize(
    ("answer", "ended_by", "response"),
    [
        ({"status": "failed", "answer": "No."}, "report", "No."),
        ({"city": "Paris"}, "text", '{"city": "Paris"}'),
        (42, "text", "42"),
        ("  \n", "empty", ""),
        (None, "empty", ""),
    ],
)
def test_json_value_is_answer(answer: Any, ended_by: str, response: str) -> None:
    result = answer_result(answer)
    assert (result.ended_by, result.response) == (ended_by, response)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_turn_generation_time_is_not_counted(tmp_path: Path) -> None:
    clock, left, begun = Clock(), list[float](), list[tuple[int, str]]()

    def make_turn(conversation: list[ChatMessage]) -> str | None:
        clock.now += 100
        return None if len(conversation) == 6 else f"more than {conversation[-1]['content']}"

    def turn(text: str, number: int, seconds: float) -> object:
        left.append(seconds)
        clock.now += 1
        return {"told": number}

    context: AttemptContext = Wired(tmp_path).context(attempt_time=10)
    context = replace(context, make_turn=make_turn, begin_turn=lambda *turn: begun.append(turn))
    result = converse("Hello", context, turn, clock)
    assert left == [10, 9, 8]
    assert begun == [(2, 'more than {"told": 1}'), (3, 'more than {"told": 2}')]
    assert result.answers == ('{"told": 1}', '{"told": 2}', '{"told": 3}')
