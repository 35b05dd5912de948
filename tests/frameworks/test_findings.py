"""The findings page, from recorded runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.findings.__main__ import page_text
from bench.findings.environments import EXAMPLES, environments
from bench.findings.observed import (
    Behaviour,
    LinkRequests,
    Observed,
    behaviours,
    exception_in,
    orders_in,
    tool_result_in,
)
from bench.findings.page import page
from bench.findings.trials import CALM, TRIALS
from tests.support import ROOT

CALL = {"function": {"name": "order_item", "arguments": "{}"}}
PYTHON = """Traceback (most recent call last):
  File "agent.py", line 1, in <module>
httpx.ReadTimeout: timed out
During task with name 'tools' and id '1'
"""
NODE = """file:///agent.mjs:9
RetryError [AI_RetryError]: Failed after 3 attempts.
    at run (agent.mjs:1:1) {
  [cause]: TypeError: fetch failed
"""


@pytest.mark.parametrize(
    ("stderr", "named"),
    [
        (PYTHON, "httpx.ReadTimeout: timed out"),
        (NODE, "RetryError [AI_RetryError]: Failed after 3 attempts."),
    ],
)
def test_exception_without_notes(stderr: str, named: str) -> None:
    assert exception_in(stderr) == named


@pytest.mark.parametrize(
    "reply",
    [
        json.dumps({"choices": [{"message": {"tool_calls": [CALL]}}]}),
        "data: " + json.dumps({"choices": [{"delta": {"tool_calls": [CALL]}}]}) + "\n\ndata: [DONE]\n\n",
        json.dumps({"output": [{"type": "function_call", "name": "order_item", "arguments": "{}"}]}),
    ],
)
def test_order_is_read_in_each_dialect(reply: str) -> None:
    assert orders_in(reply) == ["{}"]


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "tool", "content": "no"}]},
        {"messages": [{"role": "tool", "content": [{"type": "text", "text": "no"}]}]},
        {"input": [{"type": "function_call_output", "output": "no"}]},
    ],
)
def test_tool_result_is_read_in_each_dialect(body: dict[str, object]) -> None:
    assert tool_result_in(body) == "no"


def observation(**fields: object) -> Observed:
    usual = {
        "end": "answered",
        "seconds": 1.0,
        "model": LinkRequests(2, 2),
        "shop": LinkRequests(1, 1),
        "orders": 1,
    }
    usual |= {
        "delivered": ("hang",),
        "streams": False,
        "tool_result": "",
        "answer": "",
        "error": "",
        "source": "model",
    }
    return Observed(**{**usual, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"orders": 2}, "| answered, **2 orders** |"),
        ({"model": LinkRequests(9, 1, 6)}, "9 for 1: 6 by the SDK's retries, 2 by the framework's"),
        ({"source": "neither", "answer": "error | 503"}, "answers `error \\| 503`"),
        ({"end": "crashed", "error": "OSError: no"}, "`OSError: no`"),
        ({"delivered": ()}, "| not affected |"),
    ],
)
def test_table_row_matches_observation(fields: dict[str, object], sentence: str) -> None:
    trial = TRIALS[1]
    cells = {CALM.name: behaviours([observation()]), trial.name: behaviours([observation(**fields)])}
    assert sentence in page({"x": "x 1"}, {"x": cells}, [trial])


def test_page_counts_runs_that_did_the_same() -> None:
    runs = [observation(seconds=second, answer=str(second)) for second in (1, 3)]
    cells = behaviours([observation(end="crashed", error="OSError: no"), *runs])
    assert [Behaviour.load(json.loads(json.dumps(each.dump()))) for each in cells] == cells
    text = page({"x": "x 1"}, {"x": {CALM.name: cells[:1], TRIALS[1].name: cells}}, [TRIALS[1]])
    assert "| answered (2 of 3); crash (1 of 3) |" in text
    assert "| 2 of 3 [13.5 %, 98.3 %] | answers with the model's words after 1 to 3 s |" in text


def test_every_example_has_environment() -> None:
    known_names = {name for environment in environments() for name in environment.manifests}
    assert len(known_names) == 13


@pytest.mark.parametrize("agent", sorted(EXAMPLES.glob("*/agent.*")), ids=lambda agent: agent.parent.name)
def test_examples_are_short_and_do_not_import_wirefault(agent: Path) -> None:
    text = agent.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 60 and "wirefault" not in text.lower() and "base_url" not in text


def test_page_is_current() -> None:
    text = (ROOT / "docs" / "findings.md").read_text(encoding="utf-8")
    assert text == page_text(), "run: python -m bench.findings --page"
