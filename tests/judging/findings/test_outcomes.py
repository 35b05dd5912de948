"""Outcomes that mean a wrong state or a false claim are findings, once each; honest failures are not."""

from __future__ import annotations

import pytest

from tests.judging.findings.traced import LINKS, lost, request
from tests.judging.oracle.histories import (
    ASK_BOB,
    ended,
    episode,
    fault_met,
    healed,
    message_sent,
    run_finished,
    run_started,
    world,
)
from tests.support import replace
from wirefault.judging.ending import run_ending
from wirefault.judging.judge import judge_run
from wirefault.judging.summary import summary_of

SENT, TWICE = world(message_sent()), world(message_sent(), message_sent(key="k2"))
OTHER = world(message_sent("Eve", "hello", key="k2"), message_sent())


def judged(*events, expect=ASK_BOB):
    start = replace(run_started(1), links=list(LINKS))
    return judge_run([start, *episode(*events, expect=expect), run_finished()])


def test_write_that_the_network_alone_repeated_is_a_note():
    copies = fault_met("duplicate_request", evidence={"copies": 2, "statuses": [201, 201]})
    once, again = request(3.0, fault=copies, status=201, forwarded=True), request(4.0, status=201)
    order = {"requests": [{"link": "shop", "method": "POST", "path": "/orders"}]}
    for writes, severity in ([once], "note"), ([once, again], "harmful"):
        [episode_] = judged(*writes, ended("done"), expect=order).episodes
        assert (episode_.outcome, episode_.by_outcome.severity) == ("duplicate", severity)


def exited(text):
    end = ended(ended_by="text", response=text)
    return replace(end, error_type="ExitCode", error=f"it ended with exit code 3: {text}")


@pytest.mark.parametrize(
    ("events", "outcome", "expected"),
    [
        ([ended("done"), world()], "false_success", ("harmful", "false_success")),
        ([ended("done"), TWICE], "duplicate", ("harmful", "duplicate")),
        ([ended("failed"), OTHER], "honest_failure", ("harmful", "unasked_write")),
        ([ended(ended_by="exception"), OTHER], "crash", ("harmful", "unasked_write")),
        ([ended("failed"), SENT], "false_failure", ("harmful", "false_failure")),
        ([exited("The message was sent."), SENT], "false_failure", ("risky", "false_failure")),
        ([exited("It failed, and may have been sent."), SENT], "false_failure", None),
        ([ended("failed"), world()], "honest_failure", None),
        ([ended(ended_by="exception"), world()], "crash", None),
        ([ended(ended_by="limit"), world()], "runaway", None),
        ([ended("done"), TWICE, healed(invalid="the lab failed")], "invalid", None),
    ],
)
def test_outcome_that_is_a_finding(events, outcome, expected):
    judgement = judged(*events)
    assert judgement.episodes[0].outcome == outcome
    findings = [finding for finding in judgement.findings if finding.severity != "note"]
    assert [(finding.severity, finding.rule) for finding in findings] == ([expected] if expected else [])
    assert all(finding.evidence for finding in findings)


@pytest.mark.parametrize(
    ("again", "sentence"), [(201, "both were executed"), (None, "may have been executed")]
)
def test_finding_that_names_the_event_takes_the_graver_severity(again, sentence):
    """The oracle proves what the wire leaves open, in the same sentence."""
    repeat = request(0.4, status=201) if again else request(0.4, complete=(True, False), status=None)
    rows = world(message_sent(), message_sent(key="k2"))
    judgement = judged(lost(), repeat, ended("done"), rows)
    [finding] = judgement.findings
    assert (finding.severity, finding.rule) == ("harmful", "write_repeated")
    assert sentence in finding.text
    assert ("; duplicate: " in finding.text) == (again is None)


def test_findings_of_an_invalid_episode_are_notes_and_show_nothing():
    judgement = judged(lost(), request(0.4, status=201), ended("done"), healed(invalid="the lab failed"))
    assert {finding.severity for finding in judgement.findings} == {"note"}
    assert run_ending(summary_of(judgement)) == 2


@pytest.mark.parametrize(
    ("rows", "completed", "code"), [(TWICE, False, 1), (TWICE, True, 1), (SENT, False, 2), (SENT, True, 0)]
)
def test_interrupted_run_ends_by_its_findings_or_unknown(rows, completed, code):
    start = replace(run_started(1), links=list(LINKS))
    events = episode(lost(), request(0.4, status=201), ended("done"), rows, expect=ASK_BOB)
    judgement = judge_run([start, *events, run_finished(completed=completed)])
    assert run_ending(summary_of(judgement), "harmful") == code
