"""Faults of the model's reply end an episode of the lab's own agent in the outcome that they should."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.lab import SharedLab, sample
from wirefault.history.events import ToolCallRefused

MESSAGE = "Send Bob a message"
TEMPERATURE = "temperature in Paris"


@pytest.mark.parametrize(
    ("fault", "when", "prompt", "outcome", "world"),
    [
        ("hallucination", {"nth": 1}, MESSAGE, "false_success", "lost"),  # the agent reports it as sent
        ("hallucination", {"nth": 2}, TEMPERATURE, "false_success", "not_applicable"),  # another figure
        ("repeated_tool_call", {"nth": 1}, MESSAGE, "duplicate", "duplicated"),
        ("wrong_arguments", {"nth": 1}, MESSAGE, "false_success", "wrong"),
        ("off_topic", {"nth": 2}, TEMPERATURE, "false_success", "not_applicable"),
        ("refusing_progress", {"nth": 1}, MESSAGE, "failure", "lost"),
        ("stuck_pattern", {"nth": 2}, MESSAGE, "success", "as_asked"),
        ("infinite_loop", {}, TEMPERATURE, "runaway", "not_applicable"),
        ("empty_answer", {"nth": 2}, TEMPERATURE, "crash", "not_applicable"),
        ("malformed_tool_call", {"nth": 1}, TEMPERATURE, "crash", "not_applicable"),
        ("tool_use_failed", {}, TEMPERATURE, "crash", "not_applicable"),
        ("unknown_tool", {"nth": 1}, TEMPERATURE, "success", "not_applicable"),  # the agent retries
    ],
)
def test_model_fault_has_expected_outcome(
    shared: SharedLab, fault: str, when: dict[str, Any], prompt: str, outcome: str, world: str
) -> None:
    faults = json.dumps({"faults": [{"fault": fault, "links": "model", "when": when}]})
    [episode] = shared.run(sample(prompt), faults=faults).summary.episodes
    assert (episode.outcome, episode.world) == (outcome, world)


@pytest.mark.parametrize(
    ("fault", "more", "why", "tool"),
    [
        ("malformed_tool_call", {}, "malformed", "get_weather"),
        ("unknown_tool", {"with": {"tool": "get_wether"}}, "unknown_tool", "get_wether"),
        ("wrong_arguments", {"with": {"kind": "missing"}}, "bad_arguments", "get_weather"),
    ],
)
def test_history_has_refused_call(
    shared: SharedLab, fault: str, more: dict[str, Any], why: str, tool: str
) -> None:
    entry = {"fault": fault, "links": "model", "when": {"nth": 1}, **more}
    lab_run = shared.run(sample(TEMPERATURE), faults=json.dumps({"faults": [entry]}))
    [refused] = lab_run.of(ToolCallRefused)
    assert (refused.why, refused.tool, refused.reply, refused.index) == (why, tool, 1, 0)
    assert lab_run.summary.refused_calls == {why: 1}
    assert f"1 tool call that the agent itself refused: {why} 1" in lab_run.summary.remarks
