"""Mitigations are switched on by one setting, and are seen in the logs and on the page: those with a file."""

from __future__ import annotations

import json

import pytest

from tests.compose.rig import Lab

pytestmark = pytest.mark.compose

WRITE = 'Send Bob a message saying "The report is ready".'
READ = "What is the temperature in Paris right now?"
TOO_FEW = ("-e", "MODEL_CALLS=1", "-e", "PROMPT_LIMIT=2", "-e", "ERROR_PROB=0")


@pytest.mark.parametrize(
    ("recovery", "strategy", "more"),
    [
        ("handoff(answers=deny)", "handoff", ("-e", "ERROR_PROB=1")),
        ("checkpoint", "checkpoint", TOO_FEW),  # the first attempt breaks off after one model call
    ],
)
def test_strategy_is_switched_on_by_one_setting(
    lab: Lab, recovery: str, strategy: str, more: tuple[str, ...]
) -> None:
    lab.prompts(WRITE, READ)
    lab.compose(f"run --rm -e 'RECOVERY={recovery}' {' '.join(more)} -e TOXIC_PROB=0 -e SEED=1 agent")
    run = lab.runs()[-1]
    lines = [json.loads(line) for line in (lab.logs / "info.log").read_text("utf-8").splitlines()]
    events = [line for line in lines if line["event"] == "recovery" and line["run_id"] == run]
    assert {event["strategy"] for event in events} == {strategy}
    page = (lab.logs / "pages" / run / "page.html").read_text(encoding="utf-8")
    assert events[0]["message"].split(":")[0] in page
