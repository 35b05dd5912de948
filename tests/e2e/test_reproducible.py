"""The same seed gives the same plan, faults and outcomes; another seed does not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.lab import SAMPLES, LabRun, SharedLab
from wirefault.history.events import AttemptArmed, Exchange
from wirefault.history.reader import read_run
from wirefault.judging.summary import summarise

SOME = SAMPLES[11:19]
CHAOS: dict[str, Any] = {
    **{"toxic_prob": 0.3, "error_prob": 0.2, "tool_limit": 2, "prompt_limit": 2},
    "toxics": "timeout:400,latency:300,reset_peer:0",  # nothing for which a client waits until it gives up
}


def fates(exchange: Exchange) -> list[tuple[object, ...]]:
    return [
        (fault.id, fault.kind, fault.injected, fault.why_not, str(fault.evidence))
        for fault in exchange.faults
    ]


def facts(lab_run: LabRun) -> list[tuple[Any, ...]]:
    """Plan, faults and outcomes, without times, ports and run ids."""
    armed = [
        (e.episode, e.attempt, tuple((t.link, t.kind, t.stream) for t in e.toxics))
        for e in lab_run.of(AttemptArmed)
    ]
    exchanges = [
        (e.episode, e.attempt, e.link, e.fingerprint, e.call, e.try_, fates(e), e.status)
        for e in lab_run.of(Exchange)
        if e.request_complete
    ]
    outcomes = [(one.episode, one.outcome, one.attempts, one.flags) for one in lab_run.summary.episodes]
    return [*sorted(armed), *sorted(exchanges), *outcomes]


@pytest.fixture(scope="module")
def first(shared: SharedLab) -> LabRun:
    return shared.run(*SOME, seed=5, **CHAOS)


def test_only_same_seed_repeats_run(shared: SharedLab, first: LabRun) -> None:
    again, other = (shared.run(*SOME, seed=seed, **CHAOS) for seed in (5, 6))
    assert facts(first) == facts(again)
    assert facts(first) != facts(other)
    assert first.summary.reproducible, first.summary.not_reproducible_because


def test_prompt_meets_same_faults_alone_and_among_others(shared: SharedLab) -> None:
    some = SAMPLES[13:19]
    often = {"fault": "unavailable", "links": "tools", "when": {"probability": 0.5}}
    chaos = CHAOS | {"faults": {"faults": [often]}}
    among = facts(shared.run(*some, seed=5, **chaos))
    alone = facts(shared.run(*reversed(some[1:4]), seed=5, **chaos))
    chosen_keys = {prompt.key for prompt in some[1:4]}
    assert sorted(map(str, alone)) == sorted(str(line) for line in among if line[0] in chosen_keys)
    assert any(line[2] for line in alone) and any(line[6] for line in alone if len(line) > 6)


def test_model_visible_ids_repeat(shared: SharedLab) -> None:
    seen = []
    for _ in range(2):
        lab_run = shared.run(*SAMPLES[:3], seed=9)
        seen.append(
            [(one.episode, one.response) for one in lab_run.record.events if one.event == "attempt_ended"]
        )
    assert seen[0] == seen[1]


def test_run_is_judged_again_from_history(shared: SharedLab, first: LabRun) -> None:
    again = summarise(read_run(shared.configuration.logs, first.record.run_id))
    assert [one.outcome for one in again.episodes] == first.outcomes
    assert again.as_json()["episodes"] == first.summary.as_json()["episodes"]
