"""docs/files.md: its queries work on a lab's files, and its tables match the logs."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing

import pytest

from tests.e2e.lab import LabRun, SharedLab, sample
from tests.support import ROOT
from wirefault.history.logs import agent_line

PAGE = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
QUERIES = re.findall(
    r'^sqlite3 -readonly -box state/(\w+\.db) "\n(.+?)"$', PAGE, flags=re.MULTILINE | re.DOTALL
)


@pytest.fixture(scope="module")
def lab_run(shared: SharedLab) -> LabRun:
    """A message whose reply is lost, and which is sent again."""
    toxics = {"toxic_prob": 1, "toxics": "timeout@downstream:100"}
    return shared.run(sample("Send Bob a message"), tool_limit=2, idempotency=False, **toxics)


def test_page_has_three_queries() -> None:
    assert len(QUERIES) == 3


@pytest.mark.parametrize(("database", "query"), QUERIES, ids=["attempts", "toxics", "duplicates"])
def test_each_query_finds_run(database: str, query: str, shared: SharedLab, lab_run: LabRun) -> None:
    path = shared.configuration.state.parent / database
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        result = connection.execute(query)
        names, rows = [column[0] for column in result.description], result.fetchall()
    newest = dict(zip(names, rows[0], strict=True))
    episode = lab_run.summary.episodes[0].episode
    expected = {
        "arming_ms": {"episode": episode, "attempt": 1, "state": "healed"},
        "attempts": {"run_id": lab_run.record.run_id, "kind": "timeout", "attempts": 1},
        "times": {"world": f"{lab_run.record.run_id}/{episode}", "kind": "message_sent", "times": 2},
    }
    [known] = [expected[name] for name in names if name in expected]
    assert {name: newest[name] for name in known} == known


def test_agent_log_table_is_complete(shared: SharedLab, lab_run: LabRun) -> None:
    table = PAGE.split("`logs/agent.log`")[1].split("`logs/info.log`")[0]
    rows = [row.split("|")[1] for row in table.splitlines() if row.startswith("| `")]
    [ended] = [event for event in lab_run.record.events if event.event == "attempt_ended"]
    assert set(re.findall(r"`(\w+)`", " ".join(rows))) >= set(agent_line("r", "p", ended, None))


def test_info_log_lines_have_documented_time_and_event(shared: SharedLab, lab_run: LabRun) -> None:
    log = shared.configuration.logs / "info.log"
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert lines and all(line["time"] and line["message"] for line in lines)
    processed = [line for line in lines if line["event"] == "prompt_processed"]
    one_run = [line for line in processed if line["run_id"] == processed[-1]["run_id"]]
    places = list(range(1, len(one_run) + 1))
    assert (
        [line["prompt_index"] for line in one_run] == [line["processed_count"] for line in one_run] == places
    )
    successes = [line["outcome"] for line in one_run].count("success")
    assert one_run[-1]["success_count"] == successes
    assert {line["event"] for line in lines} <= set(re.findall(r"`(\w+)`", PAGE))
