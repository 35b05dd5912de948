"""Faults of the model's reply end an episode of the lab's own agent in the outcome that they should."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.flight import Hangar, sample

MESSAGE = "Send Bob a message"
TEMPERATURE = "temperature in Paris"


@pytest.mark.parametrize(
    ("fault", "when", "prompt", "outcome", "world"),
    [
        ("hallucination", {"nth": 1}, MESSAGE, "false_success", "lost"),  # it says that it is sent
        ("hallucination", {"nth": 2}, TEMPERATURE, "false_success", "not_applicable"),  # another figure
        ("repeated_tool_call", {"nth": 1}, MESSAGE, "duplicate", "duplicated"),
        ("wrong_arguments", {"nth": 1}, MESSAGE, "false_success", "wrong"),
        ("off_topic", {"nth": 2}, TEMPERATURE, "false_success", "not_applicable"),
        ("refusing_progress", {"nth": 1}, MESSAGE, "unjudged", "lost"),
        ("stuck_pattern", {"nth": 2}, MESSAGE, "unjudged", "as_asked"),
        ("infinite_loop", {}, TEMPERATURE, "runaway", "not_applicable"),
        ("empty_answer", {"nth": 2}, TEMPERATURE, "crash", "not_applicable"),
        ("malformed_tool_call", {"nth": 1}, TEMPERATURE, "crash", "not_applicable"),
        ("tool_use_failed", {}, TEMPERATURE, "crash", "not_applicable"),
        ("unknown_tool", {"nth": 1}, TEMPERATURE, "success", "not_applicable"),  # it is told, and asks again
    ],
)
def test_a_fault_of_the_model_ends_in_its_outcome(
    hangar: Hangar, fault: str, when: dict[str, Any], prompt: str, outcome: str, world: str
) -> None:
    faults = json.dumps({"faults": [{"fault": fault, "links": "model", "when": when}]})
    [episode] = hangar.fly(sample(prompt), faults=faults).summary.episodes
    assert (episode.outcome, episode.world) == (outcome, world)
