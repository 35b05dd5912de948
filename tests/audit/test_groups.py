"""Answers of an audit as printed lines."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from wirefault.audit.answers import Answer, FaultedRun
from wirefault.audit.calls import Call, CallKey
from wirefault.audit.groups import asked_text, finding_groups
from wirefault.audit.question import Ask, Question, plan_asks
from wirefault.audit.questions import QUESTIONS
from wirefault.faults.sets.presets import canonical_text, read_canonical
from wirefault.history.judged_events import Finding, Severity
from wirefault.report.audit import print_answer
from wirefault.report.fixes import HELPS

ORDER = Call(CallKey("shop", "POST /orders"), 1, "write", {})
MAIL = Call(CallKey("mail", "POST /mails"), 1, "write", {})


def answer(
    id: str, question: str, call: Call, text: str, severity: Severity = "harmful", runs: int = 2
) -> Answer:
    seen = Finding("write_repeated", severity, text)
    return Answer(Ask(id, QUESTIONS[question], call), (FaultedRun("r", "finding", (seen,)),) * runs)


def test_same_sentence_for_several_questions_is_one_finding() -> None:
    lost = answer("q01", "lost_reply", ORDER, "it was sent again 3 ms after its reply was lost")
    hang = answer("q04", "write_hangs", ORDER, "it was sent again 20 ms after its reply was lost", runs=1)
    other = answer("q02", "lost_reply", MAIL, "it was sent again 5 ms after its reply was lost")
    [group] = finding_groups([lost, other, hang])
    assert group.text == (
        "POST /orders, reply lost after it was carried out, or it hangs after it was carried out, or "
        "POST /mails, reply lost after it was carried out: "
        "it was sent again 3 to 20 ms after its reply was lost"
    )
    assert (group.ids, group.times) == (["q01", "q02", "q04"], (5, 5))


def test_worst_findings_come_first() -> None:
    risk = answer("q01", "lost_reply", ORDER, "there was no limit", "risky")
    harm = answer("q09", "write_5xx", ORDER, "it was executed 2 times")
    more = answer("q10", "write_5xx", MAIL, "it was executed 3 times")
    assert [group.ids for group in finding_groups([risk, harm, more])] == [["q09"], ["q10"], ["q01"]]


def test_call_is_named_once() -> None:
    answers = [answer("q01", "lost_reply", ORDER, ""), answer("q02", "write_5xx", ORDER, "")]
    assert (
        asked_text(answers) == "POST /orders, reply lost after it was carried out, or refused with 503 once"
    )


def test_message_over_stdio_has_no_header() -> None:
    answers = [answer("q01", "write_429", replace(ORDER, over_stdio=each), "") for each in (False, True)]
    texts = [asked_text([each]).partition("429")[2] for each in answers]
    assert texts == [" and Retry-After: 2", ""] == [each.ask.text.partition("429")[2] for each in answers]


def printed(width: int, **console: Any) -> list[str]:
    output = StringIO()
    text = "it was sent again 3 ms after its reply was lost; both were executed, with no Idempotency-Key"
    print_answer(Console(file=output, width=width, **console), answer("q01", "lost_reply", ORDER, text))
    return output.getvalue().splitlines()


def test_terminal_lines_wrap_under_the_word_and_end_with_the_question() -> None:
    lines = printed(80, force_terminal=True, color_system=None)
    assert len(lines) > 1 and max(map(len, lines)) <= 80
    assert lines[0].startswith("HARM  POST /orders") and lines[1].startswith("      ")
    [last] = [line for line in lines if line.endswith("2 of 2  q01")]
    assert len(last) == 80
    assert lines[-2:] == [
        "      What usually helps: Use one idempotency key for all tries of a write, and",
        "      look it up before a retry.",
    ]


def test_piped_finding_is_a_line_for_each_part() -> None:
    line, helps = printed(110)
    assert line.endswith("with no Idempotency-Key  2 of 2  q01")
    assert helps == f"      What usually helps: {HELPS['write_repeated']}"


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=str)
def test_each_question_makes_an_entry_of_a_fault_set(question: Question) -> None:
    entry = question.entry("q01", ORDER, 5.0)
    assert (entry["id"], entry["links"]) == ("q01", ["shop"])
    assert set(entry["with"]) == set(question.parameters) and question.right
    [fault] = read_canonical(str(canonical_text({"faults": [entry]}, None))).faults
    assert fault.id == "q01"


def test_unknown_tool_and_server_down_are_asked_where_they_matter() -> None:
    def model(number: int, *, writes: bool) -> Call:
        return Call(CallKey("model", "POST /chat"), number, "model", {}, number=number, calls_write=writes)

    calls = [model(1, writes=False), model(2, writes=True), replace(ORDER, executed=True), MAIL]
    asks = plan_asks([QUESTIONS["unknown_tool"], QUESTIONS["write_down"]], calls)
    assert [ask.call.text for ask in asks] == ["model 1", "model 2", "POST /orders"]
    price = Call(CallKey("shop", "GET /price"), 1, "read", {})
    assert [ask.call.text for ask in plan_asks([QUESTIONS["read_down"]], [ORDER, price])] == ["GET /price"]
