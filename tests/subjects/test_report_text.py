"""What an answer is recorded as: a report where it ends with one, else a text."""

from __future__ import annotations

from typing import Any

import pytest

from wirefault.subjects.results import answer_result, read_report

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
def test_a_report_at_the_end_is_read(answer: str) -> None:
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
def test_what_is_no_valid_report_is_text(answer: str) -> None:
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
def test_a_json_value_is_an_answer_too(answer: Any, ended_by: str, response: str) -> None:
    result = answer_result(answer)
    assert (result.ended_by, result.response) == (ended_by, response)
