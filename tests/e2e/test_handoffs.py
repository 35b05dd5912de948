"""Handoff and checkpoint through the real wire: where each makes the difference, and where it harms."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.lab import LabRun, SharedLab, sample
from tests.support import until
from wirefault.history.events import RecoveryTried, ToolCalled, WorldRead
from wirefault.lab.live import HandoffsClient, LiveFaultsError

pytestmark = pytest.mark.slow
MESSAGE, PARIS = sample("The report is ready"), sample("temperature in Paris")
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


def queue_of(shared: SharedLab) -> HandoffsClient:
    """The manager's API, as ``wirefault lab handoffs`` and the page use it."""
    return HandoffsClient(shared.lab.topology.manager, Path(), shared.lab.token)


@pytest.mark.parametrize(
    ("on_timeout", "faults", "outcome", "count"),
    [
        ("refuse", REQUEST_LOST, "honest_failure", 0),
        ("proceed", REQUEST_LOST, "success", 1),
        ("proceed", REPLY_LOST, "duplicate", 2),
        ("refuse", REPLY_LOST, "unconfirmed", 1),
        ("degrade", REPLY_LOST, "unconfirmed", 1),
    ],
)
def test_approval_that_never_comes_ends_as_set(
    shared: SharedLab, on_timeout: str, faults: dict[str, Any], outcome: str, count: int
) -> None:
    """The queue shows the case as over, and takes no answer any more."""
    recovery = f"handoff(wait=0.2, on_timeout={on_timeout})"
    lab_run = shared.run(MESSAGE, faults=faults, recovery=recovery, prompt_limit=1)
    [(_, detail)] = [(each.success, each.detail) for each in lab_run.of(RecoveryTried)]
    assert detail == f"unknown_effect: no answer in 0.2 s, {on_timeout}"
    assert (lab_run.outcomes, effects(lab_run)) == ([outcome], count)
    queue = queue_of(shared)
    [case] = [each for each in queue.cases() if each["run"] == lab_run.summary.run_id]
    assert (case["state"], case["decision"]) == ("over", None)
    with pytest.raises(LiveFaultsError, match="is over; nothing was changed"):
        queue.decide(case["id"], "approve")


def test_unanswered_read_is_degraded_where_set(shared: SharedLab) -> None:
    down = {"faults": [{"fault": "unavailable", "links": "weather"}]}
    for on_timeout, is_degraded in (("refuse", False), ("degrade", True)):
        recovery = f"handoff(wait=0.1, on_timeout={on_timeout})"
        lab_run = shared.run(PARIS, faults=down, recovery=recovery, persona="quitter", prompt_limit=1)
        [made] = lab_run.of(ToolCalled)
        assert ('"degraded": true' in made.result, made.ok) == (is_degraded, is_degraded)


def test_person_approves_while_the_agent_waits(shared: SharedLab) -> None:
    queue = queue_of(shared)

    def waiting() -> list[int]:
        return [each["id"] for each in queue.cases() if each["state"] == "waiting"]

    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(
            shared.run, MESSAGE, faults=REQUEST_LOST, recovery="handoff(wait=60)", prompt_limit=1
        )
        until(lambda: bool(waiting()), "a call in the queue")
        [id] = waiting()
        assert queue.decide(id, "approve")["state"] == "approved"
        lab_run = run.result()
    assert (lab_run.outcomes, effects(lab_run)) == (["success"], 1)
    assert [each.detail for each in lab_run.of(RecoveryTried)] == ["unknown_effect: approved by a person"]


def test_checkpoint_continues_a_mistake_that_a_new_start_would_not_repeat(shared: SharedLab) -> None:
    lie = {"fault": "wrong_value", "links": "weather", "with": {"field": "main.temp"}, **FIRST}
    once = {"fault": "unavailable", "links": "model", "when": {"model_requests": "2-", "at_most": 3}}
    faults = {"faults": [lie, once]}  # three requests: the model's client sends one call so often
    anew = shared.run(PARIS, faults=faults, recovery="none", prompt_limit=2)
    assert anew.outcomes == ["success"]
    continued = shared.run(PARIS, faults=faults, recovery="checkpoint", prompt_limit=2)
    assert continued.outcomes == ["misled"]


def test_next_attempt_continues_from_checkpoint(shared: SharedLab) -> None:
    again = shared.run(MESSAGE, faults=MODEL_GONE, recovery="keys", prompt_limit=2)
    assert effects(again) == 2  # the second attempt began anew, with other keys
    continued = shared.run(MESSAGE, faults=MODEL_GONE, recovery="keys, checkpoint", prompt_limit=2)
    assert (continued.outcomes, effects(continued)) == (["success"], 1)
    [restored] = continued.of(RecoveryTried)
    assert (restored.strategy, restored.attempt, restored.success) == ("checkpoint", 2, True)
    assert restored.preserved == "1 model replies, 1 tool results"
