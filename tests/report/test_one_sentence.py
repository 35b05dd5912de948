"""Each finding has the same words wherever it is shown, as the document has them."""

from __future__ import annotations

import html
import io
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.judging.findings.traced import LINKS, findings_in, lost, request
from tests.judging.oracle.histories import run_started
from tests.report.page.recorded import doubled_order, killed_order
from tests.support import replace
from wirefault.history.events import Event
from wirefault.history.judged_events import Finding
from wirefault.judging.findings.differences import DIFFERENCES
from wirefault.judging.findings.finding import RuleText
from wirefault.judging.findings.outcomes import OUTCOME_RULES
from wirefault.judging.findings.rules import RULES
from wirefault.judging.findings.writes import WRITE_REPEATED, done_in_words
from wirefault.judging.subject_name import agent_of
from wirefault.report.fixes import HELPS, WORDS, snippet_for
from wirefault.report.page.markdown import markdown
from wirefault.report.page.write import page_content, page_html
from wirefault.report.summary import print_summary

_CLIENT = "python-httpx/0.28.1"


@pytest.mark.parametrize("record", [doubled_order, killed_order])
def test_console_markdown_and_page_say_the_documents_words(tmp_path: Path, record: Any) -> None:
    recording = record(tmp_path)
    summary = recording.arms[""].summary
    content = page_content(recording)
    console = Console(file=io.StringIO(), width=1000)
    print_summary(console, summary)
    page = re.sub("<[^>]+>", "", html.unescape(page_html(content)))
    texts = [console.file.getvalue(), markdown(content, recording), page]  # type: ignore[attr-defined]
    assert summary.findings
    for finding in summary.findings:
        for text in texts:
            words = " ".join(text.split())
            assert finding.headline in words and WORDS[finding.severity] in words
            assert HELPS.get(finding.rule, "") in words


def test_snippet_is_for_the_client_that_was_seen() -> None:
    finding = Finding(
        "write_repeated", "harmful", "POST /orders was sent again, by the client", client=_CLIENT
    )
    assert 'httpx.post(url, json=order, headers={"Idempotency-Key": key})' in snippet_for(finding)
    assert "requests.post" in snippet_for(replace(finding, client="python-requests/2.32"))
    assert "await fetch" in snippet_for(replace(finding, client="node"))
    assert snippet_for(replace(finding, client="curl/8")) == ""
    step = replace(finding, text="POST /orders was sent again, by a repeated step")
    assert "def plan(state)" in snippet_for(step)
    timeout = replace(finding, rule="no_time_limit", client="OpenAI/Python 1.99.0")
    assert snippet_for(timeout) == "OpenAI(timeout=30, max_retries=2)"


@pytest.mark.parametrize("rule", [*RULES, *DIFFERENCES, *OUTCOME_RULES], ids=lambda rule: rule.name)
def test_each_rule_says_who_did_what(rule: RuleText) -> None:
    assert rule.headline.startswith("{agent} ") and not rule.headline.endswith(".")
    assert rule.severity == "note" or HELPS[rule.name].endswith(".")


@pytest.mark.parametrize(
    ("events", "headline"),
    [
        ([lost(), request(0.4, status=201)], "ordered twice after one lost reply"),
        ([lost(), lost(0.4), request(0.9, status=201)], "ordered 3 times after 2 lost replies"),
        ([lost(status=None), request(0.4, status=201)], "may have ordered twice after one lost reply"),
        (
            [lost(target="/orders/1", method="DELETE"), request(0.4, "/orders/1", "DELETE", status=200)],
            "repeated DELETE /orders/1 after one lost reply, which changes nothing more",
        ),
        ([request(status=503), request(0.4, status=201)], None),
    ],
)
def test_repeated_write_is_named_by_what_it_did(events: list[Event], headline: str | None) -> None:
    started = replace(run_started(1), links=list(LINKS), subject="command: ./agent")
    headlines = [each.headline for each in findings_in([started, *events], [WRITE_REPEATED])]
    assert headlines == ([f"Your agent {headline}"] if headline else [])


@pytest.mark.parametrize(
    ("write", "done"),
    [
        ("POST /v1/orders", "ordered"),
        ("create_refund", "refunded"),
        ("cancel_order", "made the same write, cancel_order,"),
        ("PATCH /orders", "made the same write, PATCH /orders,"),
        ("POST /orders/7/notes", "made the same write, POST /orders/7/notes,"),
    ],
)
def test_writes_have_a_verb_only_where_it_is_certain(write: str, done: str) -> None:
    assert done_in_words(write) == done


def test_agent_of_the_lab_is_not_yours() -> None:
    assert agent_of(run_started(1)) == "The lab's agent"
