"""Each persona of the scripted model has its expected outcomes under any fault."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.lab import SharedLab, sample
from wirefault.faults.sets.presets import preset

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
