"""Runs of an audit, read from their events."""

from __future__ import annotations

import pytest

from tests.judging.findings.traced import LINKS, model_request, request
from tests.judging.oracle.histories import ended, fault_met, run_started, started
from tests.support import replace
from wirefault.audit.answers import CleanRuns, conduct_of, read_run, run_note
from wirefault.audit.options import AuditOptions
from wirefault.judging.findings.differences import differences
from wirefault.judging.findings.rules import trace_findings
from wirefault.judging.judge import JudgedEpisode, judge_run
from wirefault.wiring.write_requests import Corrections


def test_order_repeated_after_failed_model_call_is_found_as_exec_finds_it() -> None:
    def order(at: float) -> object:
        return request(at, status=201, request_body="{}", fingerprint="{}")

    start = replace(run_started(1), links=list(LINKS))
    end = ended(ended_by="text", response="The order was placed.")
    clean = [read_run(judge_run([start, started(), order(0), end]), Corrections()) for _ in range(2)]
    failed = model_request(0.5, status=500, fault=fault_met("server_error", 500, id="f"))
    run = read_run(judge_run([start, started(), order(0), failed, order(1), end]), Corrections())
    pairs = [(each.rule, each.severity) for each in trace_findings([run.trace])]
    conduct = conduct_of(run)
    assert conduct is not None
    assert (pairs, differences(conduct, CleanRuns(clean).conducts)) == ([("write_repeated", "harmful")], [])


@pytest.mark.parametrize(
    "text, note",
    [
        ("Order 2 was placed.", ""),
        ("a log\nOrder 2 was placed.", ""),
        (
            "Leider ist ein Fehler aufgetreten.",
            "in other words it answers 'Leider ist ein Fehler aufgetreten.'",
        ),
    ],
)
def test_answer_in_unread_words_is_noted(text: str, note: str) -> None:
    start = replace(run_started(1), links=list(LINKS))

    def run(answer: str) -> JudgedEpisode:
        order = request(status=201, request_body="{}", fingerprint="{}")
        end = ended(ended_by="text", response=answer)
        return read_run(judge_run([start, started(), order, end]), Corrections())

    clean = CleanRuns([run("Order 1 was placed."), run("Order 1 was placed.")])
    assert run_note(conduct_of(run(text)), clean) == note


def test_write_carried_out_less_often_is_counted() -> None:
    start = replace(run_started(1), links=list(LINKS))

    def run(orders: int, answer: str) -> JudgedEpisode:
        writes = [request(at, status=201, request_body=f"{at}", fingerprint=f"{at}") for at in range(orders)]
        end = ended(ended_by="text", response=answer)
        return read_run(judge_run([start, started(), *writes, end]), Corrections())

    clean = CleanRuns([run(2, "Both were placed.") for _ in range(2)])
    notes = [run_note(conduct_of(run(orders, "Sorry.")), clean) for orders in (1, 0)]
    assert notes == [
        "POST /orders was carried out once, not twice, and it answers 'Sorry.'",
        "POST /orders was not carried out, and it answers 'Sorry.'",
    ]


def test_only_questions_that_have_an_agent_wait_get_further_lanes() -> None:
    lanes = {
        name: AuditOptions((name,), workers=2).lanes for name in ("lost_reply", "write_hangs", "write_down")
    }
    assert lanes == {"lost_reply": 2, "write_hangs": 6, "write_down": 6}
