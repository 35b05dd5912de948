"""Arms of a tournament meet the same faults on the calls that they share, however often they call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.judging.oracle.histories import exchange
from wirefault.core.identity import fingerprint
from wirefault.dialects.http import Request
from wirefault.experiments.run_tournament import Try, compared_schedules, drawn_faults
from wirefault.faults.matching.matcher import FaultMatcher, IncomingTry
from wirefault.faults.plan import plan_try
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.fault_set import build_set
from wirefault.gateway.calls import AttemptCalls
from wirefault.wiring.links import lab_links

SEEDS = 200
FAULTS: dict[str, Any] = {
    "faults": [
        {"fault": "lose_reply", "links": "search", "when": {"probability": 0.4}},
        {"fault": "status", "links": "search", "with": {"status": 503}, "when": {"probability": 0.3}},
        {"fault": "delay", "links": "search", "when": {"probability": 0.5}},
        {"fault": "rate_limit", "links": "weather", "when": {"probability": 0.5}},
    ]
}
FRUGAL = ["search:/a", "search:/b", "weather:/c"]
# asks first for something else, sends everything again, and later
EAGER = [
    "weather:/x",
    "search:/b",
    "search:/b",
    "search:/a",
    "search:/a",
    "search:/a",
    "weather:/c",
    "search:/b",
]


def drawn(seed: int, requests: Sequence[str]) -> dict[Try, tuple[str, ...]]:
    """The faults and acts that the gateway plans for these requests of an agent."""
    matcher = FaultMatcher(seed, build_set(FAULTS, "f", REGISTRY, lab_links()).faults)
    calls, plans = AttemptCalls(), {}
    for at, place in enumerate(requests):
        link, _, target = place.partition(":")
        request = Request(target=target)
        key = fingerprint("GET", target)
        call = calls.count_arrival(link, key)
        incoming = IncomingTry(
            link, "GET", target, lambda request=request: request, key, "e", 1, call, 1, at * 1.7
        )
        plan = plan_try(matcher.match(incoming).met, whole=True)
        acts = sorted(f"{fault.id} {fault.act}" for fault in plan.met_faults)
        plans["e", "1", link, key, str(call), "1"] = tuple(acts)
    return plans


def test_shared_calls_meet_same_faults_for_200_seeds() -> None:
    faulted = 0
    for seed in range(SEEDS):
        sides = {"frugal": drawn(seed, FRUGAL), "eager": drawn(seed, EAGER)}
        schedules = compared_schedules(sides)
        assert (schedules.shared, schedules.different) == (len(FRUGAL), [])
        faulted += any(sides["frugal"].values())
    assert faulted > SEEDS / 2


def test_further_calls_have_their_own_draws() -> None:
    """Else a retry would meet the fault of its call again, and no retry could ever help."""
    alike = [len({*drawn(seed, ["search:/a"] * 4).values()}) == 1 for seed in range(SEEDS)]
    assert sum(alike) < SEEDS / 4


@pytest.mark.parametrize("other", [[], ["other"]])
def test_different_faults_are_named(other: list[str]) -> None:
    one = drawn_faults([exchange(link="shop", faults=[])])
    schedules = compared_schedules({"a": one, "b": dict.fromkeys(one, tuple(other))})
    assert schedules.shared == 1 and bool(schedules.different) == bool(other)
