"""Handoff and checkpoint through the real wire: where each makes the difference, and where it harms."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.lab import LabRun, SharedLab, sample
from wirefault.history.events import RecoveryTried, WorldRead

pytestmark = pytest.mark.slow
MESSAGE = sample("The report is ready")
FIRST = {"when": {"first": 1, "of": "try"}}
REPLY_LOST: dict[str, Any] = {"faults": [{"fault": "lose_reply", "links": "message", **FIRST}]}
REQUEST_LOST: dict[str, Any] = {"faults": [{"fault": "lose_request", "links": "message", **FIRST}]}
# after the first reply the model fails, in all requests of its client
MODEL_GONE: dict[str, Any] = {
    "faults": [{"fault": "unavailable", "links": "model", "when": {"model_requests": "2-"}}]
}


def effects(run: LabRun) -> int:
    return sum(len(world.effects) for world in run.of(WorldRead))


def test_approved_repeat_carries_lost_request_out(shared: SharedLab) -> None:
    refused = shared.run(MESSAGE, faults=REQUEST_LOST, recovery="handoff(answers=deny)", prompt_limit=1)
    assert effects(refused) == 0
    approved = shared.run(MESSAGE, faults=REQUEST_LOST, recovery="handoff(answers=approve)", prompt_limit=1)
    assert (approved.outcomes, effects(approved)) == (["success"], 1)


def test_denied_repeat_prevents_duplicate_that_careless_approver_makes(shared: SharedLab) -> None:
    denied = shared.run(MESSAGE, faults=REPLY_LOST, recovery="handoff(answers=deny)", prompt_limit=1)
    assert effects(denied) == 1
    approved = shared.run(MESSAGE, faults=REPLY_LOST, recovery="handoff(answers=approve)", prompt_limit=1)
    assert (approved.outcomes, effects(approved)) == (["duplicate"], 2)
    keyed = shared.run(MESSAGE, faults=REPLY_LOST, recovery="keys, handoff(answers=approve)", prompt_limit=1)
    assert (keyed.outcomes, effects(keyed)) == (["success"], 1)


def test_next_attempt_continues_from_checkpoint(shared: SharedLab) -> None:
    again = shared.run(MESSAGE, faults=MODEL_GONE, recovery="keys", prompt_limit=2)
    assert effects(again) == 2  # the second attempt began anew, with other keys
    continued = shared.run(MESSAGE, faults=MODEL_GONE, recovery="keys, checkpoint", prompt_limit=2)
    assert (continued.outcomes, effects(continued)) == (["success"], 1)
    [restored] = continued.of(RecoveryTried)
    assert (restored.strategy, restored.attempt, restored.success) == ("checkpoint", 2, True)
    assert restored.preserved == "1 model replies, 1 tool results"
