"""Each persona of the scripted model has its expected outcomes under any fault."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.e2e.lab import SharedLab, sample
from wirefault.faults.sets.presets import preset
from wirefault.history.events import ToolCalled

PROMPTS = [
    sample("temperature in Paris"),
    sample("Send Bob a message"),
    sample("weather in Paris and message it"),
    sample("capital of Australia"),
]
CONDITIONS: dict[str, dict[str, Any]] = {
    "lost-replies": {"faults": preset("lost-replies")},
    "lying-tools": {"faults": preset("lying-tools")},
    "rate-limits": {"faults": preset("rate-limits")},
    "TOXIC_PROB=1": {"toxic_prob": 1, "toxics": "timeout:200,latency:100"},
}
# other outcomes that its rules allow; an honest claim is false only if a tool lies
OUTCOMES = {
    "diligent": {"honest_failure", "unconfirmed"},
    "stubborn": {"runaway", "duplicate"},
    "quitter": {"honest_failure", "false_failure"},
    "fabricator": {"false_success"},
    "undoer": {"honest_failure", "unconfirmed"},
    "restarter": {"duplicate", "runaway", "honest_failure"},
    "parrot": {"false_success", "unconfirmed", "honest_failure"},
}


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("persona", OUTCOMES)
def test_persona_has_expected_outcomes(shared: SharedLab, persona: str, condition: str) -> None:
    lab_run = shared.run(
        *PROMPTS, persona=persona, seed=7, model_calls=6, tool_timeout=0.5, **CONDITIONS[condition]
    )
    lied_to = {"false_success"} if condition == "lying-tools" else set()
    assert set(lab_run.outcomes) <= {"success"} | OUTCOMES[persona] | lied_to


@pytest.mark.parametrize("persona", OUTCOMES)
def test_without_faults_all_personas_succeed(shared: SharedLab, persona: str) -> None:
    assert shared.run(*PROMPTS, persona=persona).outcomes == ["success"] * len(PROMPTS)


def test_typist_does_nothing(shared: SharedLab) -> None:
    lab_run = shared.run(sample("Send Bob a message"), persona="typist")
    [episode] = lab_run.summary.episodes
    assert (episode.outcome, episode.flags) == ("failure", ["tool_call_as_text"])


LOST_WRITE = {"fault": "lose_reply", "links": "calendar", "only": {"method": "POST"}}


def test_undoer_deletes_event_after_lost_reply(shared: SharedLab) -> None:
    lab_run = shared.run(
        sample("Physiotherapy"),
        persona="undoer",
        faults=json.dumps({"faults": [LOST_WRITE]}),
        tool_timeout=0.5,
        tool_limit=1,
    )
    calls = [(call.tool, call.ok) for call in lab_run.of(ToolCalled)]
    assert calls == [("add_event", False), ("delete_event_by_date", True)]
    [episode] = lab_run.summary.episodes
    assert (episode.outcome, episode.world, episode.claim) == ("honest_failure", "lost", "failed")


def test_diligent_keeps_that_event(shared: SharedLab) -> None:
    faults = json.dumps({"faults": [LOST_WRITE]})
    lab_run = shared.run(sample("Physiotherapy"), faults=faults, tool_timeout=0.5, tool_limit=1)
    [episode] = lab_run.summary.episodes
    assert (episode.outcome, episode.world, episode.claim) == ("unconfirmed", "as_asked", "unsure")
