"""One table of all rules of findings: ``exec`` and ``audit`` judge the same history alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.judging.findings import test_damaged as damaged
from tests.judging.findings import test_differences as differ
from tests.judging.findings import test_leaks as leaks
from tests.judging.findings import test_retries as retries
from tests.judging.findings import test_servers as servers
from tests.judging.findings import test_streams as streams
from tests.judging.findings.traced import CRM, MODEL, SHOP, lost, model_request, request
from tests.judging.oracle.histories import armed, ended, fault_met, healed, run_finished, run_started, started
from tests.support import replace
from wirefault.audit.answers import CleanRuns, read_faulted, read_run
from wirefault.audit.question import Ask
from wirefault.audit.questions import QUESTIONS
from wirefault.history.events import Event
from wirefault.history.judged_events import Severity
from wirefault.judging.findings.differences import DIFFERENCES
from wirefault.judging.findings.rules import RULES
from wirefault.judging.judge import JudgedEpisode, judge_run
from wirefault.judging.summary import summarise
from wirefault.wiring.links import Links
from wirefault.wiring.write_requests import Corrections

Finding = tuple[str, Severity, str]
# as ``exec`` and ``audit`` find them: no link declares its writes
LINKS = Links((MODEL, replace(SHOP, writes=()), CRM, servers.FILES, servers.BACKUP))
FAULT_ID = "q01"
# Both runs begin with this call. The question's fault only delays it, so that it explains nothing by itself.
DELAYED = replace(
    fault_met("delay", status=200, id=FAULT_ID), delay_ms=1.0, shows={}, evidence={"delayed_ms": 1.0}
)
READY = request(-5, "/ready", "GET", status=200, fingerprint="ready")
FAULTED = replace(READY, faults=[DELAYED])
ORDERED = ended(ended_by="text", response="Order 17 was placed.")
CRASHED = differ.answer("", exit_code=1)


@dataclass(frozen=True)
class Row:
    """A history in which the rule finds something. ``clean``: the agent's run without the fault."""

    severity: Severity
    events: Sequence[Event]
    clean: Sequence[Event] = (ORDERED,)
    prompt: str = "Order tea"


def nested(at: float, **more: Any) -> list[Event]:
    """A call of an MCP tool whose server orders."""
    call = {"target": "/mcp", "dialect": "mcp", "message": "tools/call", "tool": "add_order"}
    return [
        request(at, link="files", seconds=0.3, **call, **more),
        request(at + 0.1, fingerprint="order", status=201),
    ]


MUTATION = {"fingerprint": "m", "request_body": '{"query": "mutation { order }"}'}
# the rule, maybe with a variant, and its history
ROWS = {
    "write_repeated": Row("harmful", [lost(), request(0.4, status=201), ORDERED]),
    "write_repeated over MCP, seen at the service, too": Row(
        "harmful", [*nested(0, complete=(True, False)), *nested(1), ORDERED]
    ),
    "write_repeated at a path that reads, too": Row(
        "harmful",
        [
            request(0, "/graphql", fingerprint="q", request_body='{"query": "{ price }"}'),
            lost(0.1, target="/graphql", **MUTATION),
            request(0.4, "/graphql", status=200, **MUTATION),
            ORDERED,
        ],
    ),
    "write_repeated by PUT": Row("note", [lost(method="PUT"), request(0.4, method="PUT"), ORDERED]),
    "error_as_result": Row("harmful", [request(status=422), ended()]),
    "damaged_call": Row("harmful", [damaged.asked_for(damaged.CUT), damaged.ORDER, damaged.answer("done")]),
    "write_on_greeting": Row("harmful", [request(status=201), ORDERED], prompt="Hello"),
    "foreign_secret": Row("harmful", [model_request(**leaks.BEARER), leaks.TO_CRM, ORDERED]),
    "open_stream": Row("risky", [model_request(reply_body=streams.CUT), streams.ANSWER]),
    "damaged_reply": Row(
        "risky",
        [
            model_request(reply_body=damaged.ERROR_EVENT),
            damaged.answer(damaged.joined(damaged.ERROR_EVENT)),
        ],
    ),
    "empty_reply": Row(
        "risky",
        [model_request(reply_body=damaged.ended_with("stop", "")), damaged.answer("")],
        clean=[damaged.answer("")],
    ),
    "error_as_answer": Row("risky", [damaged.FAILED, damaged.answer(damaged.MESSAGE)]),
    "dead_server": Row(
        "risky",
        [
            model_request(0.5, "[0]"),
            servers.tool(1, **servers.CLOSED),
            model_request(1.5, "[1]"),
            servers.order(2, status=201),
            model_request(2.5, "[2]"),
            ORDERED,
        ],
        clean=[servers.order(0, status=201), ORDERED],
    ),
    "no_time_limit": Row("risky", [streams.hung(), streams.LIMIT]),
    "hasty_retry": Row("risky", [retries.BUSY, request(0.5, status=201), ORDERED]),
    "retry_storm": Row("risky", [*retries.down(0, 0.02, 0.05, 0.07, 0.09), ORDERED]),
    "useless_retry": Row("wasteful", [*(request(at, status=422) for at in (0, 1, 2)), ORDERED]),
    "layered_retries": Row("wasteful", [*retries.resent(0, 1, 2, 0, 1, 2), ORDERED]),
    "asked_again": Row(
        "wasteful",
        [
            event
            for at in range(0, 6, 2)
            for event in (
                request(at, "/price", "GET", reply_body="4", reply_bytes=1),
                model_request(at + 1, f"[{at}]"),
            )
        ]
        + [ORDERED],
    ),
    "past_the_lab": Row("note", [leaks.past(), ORDERED]),
    "done_but_not_told": Row("harmful", [differ.order(), differ.answer(differ.FAILED)], clean=differ.CALM),
    "extra_writes": Row(
        "harmful",
        [
            differ.order(),
            differ.order(1),
            model_request(0.5),
            differ.answer("Order 18 was placed for 4 EUR."),
        ],
        clean=differ.CALM,
    ),
    "not_done_but_told": Row(
        "harmful",
        [differ.order(status=503, forwarded=False), differ.answer("Order 18 was placed for 4 EUR.")],
        clean=differ.CALM,
    ),
    "silent": Row("risky", [request(status=500, method="GET"), differ.answer("")]),
    "one_failure_ends_it": Row("risky", [request(status=500, method="GET"), CRASHED]),
}
BY_CONTROL = {rule.name for rule in DIFFERENCES}


def history(*events: Event, prompt: str) -> list[Event]:
    begun = [replace(run_started(1), links=list(LINKS)), started(prompt=prompt), armed()]
    return [*begun, *events, healed(), run_finished()]


def by_exec(row: Row) -> list[Finding]:
    summary = summarise(history(FAULTED, *row.events, prompt=row.prompt))
    return [(each.rule, each.severity, each.text) for each in summary.findings]


def by_audit(row: Row, corrections: Corrections) -> list[Finding]:
    def view(*events: Event) -> JudgedEpisode:
        return read_run(judge_run(history(*events, prompt=row.prompt)), corrections)

    clean = CleanRuns([view(READY, *row.clean) for _ in range(2)])
    assert not clean.problem
    ask = Ask(FAULT_ID, QUESTIONS["read_5xx"], clean.calls[0])
    faulted = read_faulted(view(FAULTED, *row.events), ask, clean)
    assert faulted.status != "unknown", faulted.why
    return [(each.rule, each.severity, each.text) for each in faulted.seen]


FORBIDDEN = request(status=403, fault=fault_met("forbidden", status=403))


@pytest.mark.parametrize("failed", [lost(), request(status=429, retry_after=2.0), FORBIDDEN])
def test_what_every_clean_run_sends_as_often_is_not_sent_again(failed: Event) -> None:
    again = [request(0.4, status=201), ORDERED]
    row = Row("risky", [failed, *again], clean=[request(status=201), *again])
    assert by_audit(replace(row, clean=again), Corrections())
    assert by_audit(row, Corrections()) == []


def test_every_rule_has_a_row() -> None:
    assert list(dict.fromkeys(name.split()[0] for name in ROWS)) == [
        rule.name for rule in (*RULES, *DIFFERENCES)
    ]


@pytest.mark.parametrize("reads", [(), ("POST /nowhere",)])
@pytest.mark.parametrize("name", ROWS)
def test_exec_and_audit_find_the_same(name: str, reads: tuple[str, ...]) -> None:
    """``exec`` has no clean run to compare with, and ``audit`` prints notes above its table."""
    row, rule = ROWS[name], name.split()[0]
    alone, compared = by_exec(row), by_audit(row, Corrections(reads=reads))
    findings = compared if rule in BY_CONTROL else alone
    assert [each[:2] for each in findings] == [(rule, row.severity)]
    assert [each for each in compared if each[0] not in BY_CONTROL] == [
        each for each in alone if each[1] != "note"
    ]
