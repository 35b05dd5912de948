"""Sets scaled as a whole, and the rates that are left to each of their entries."""

from __future__ import annotations

from typing import Any

import pytest

from windtunnel.dialects.http import Request
from windtunnel.faults.matching.matcher import FaultMatcher, IncomingTry
from windtunnel.faults.registry import REGISTRY
from windtunnel.faults.sets.chaos_level import conditions_of, marginals, only_delays, scaled
from windtunnel.faults.sets.fault_set import FaultSet, build_set


def a_set(*faults: dict[str, Any], toxics: tuple[dict[str, Any], ...] = ()) -> FaultSet:
    return build_set({"faults": list(faults), "toxics": list(toxics)}, "test", REGISTRY)


def entry(fault: str, probability: float, **more: Any) -> dict[str, Any]:
    when = {"probability": probability, **more.pop("when", {})}
    return {"fault": fault, "links": "search", "when": when, **more}


def rates(faults: FaultSet) -> dict[str, tuple[float, float]]:
    return {one.id: (pytest.approx(one.low), pytest.approx(one.high)) for one in marginals(faults)}


def test_the_level_is_a_factor_on_every_probability():
    whole = a_set(entry("empty", 0.4), toxics=({"toxic": "latency", "when": {"probability": 0.2}},))
    half = scaled(whole, 0.5)
    assert (half.faults[0].when.probability, half.toxics[0].probability) == (0.2, 0.1)
    assert scaled(whole, 1) is whole
    assert scaled(whole, 0) == FaultSet()


def test_each_acts_only_where_none_before_it_did():
    found = rates(a_set(entry("empty", 0.5), entry("stale", 0.5), entry("truncate", 1)))
    assert found == {"empty": (0.5, 0.5), "stale": (0.25, 0.25), "truncate": (0.25, 0.25)}


def test_a_delay_takes_nothing_from_the_others():
    assert rates(a_set(entry("delay", 0.9), entry("empty", 0.5)))["empty"] == (0.5, 0.5)


def test_one_that_only_some_tries_meet_leaves_a_range():
    found = rates(a_set(entry("empty", 0.5, when={"nth": 2}), entry("stale", 0.4)))
    assert found == {"empty": (0.5, 0.5), "stale": (0.2, 0.4)}


def test_links_are_apart():
    found = marginals(a_set({**entry("empty", 0.5), "links": "tools"}, entry("stale", 1)))
    assert {one.link for one in found if one.id == "empty"} >= {"search", "weather"}
    assert [one.low for one in found if one.id == "stale"] == [0.5]


def test_the_rates_are_those_of_many_tries():
    faults = a_set(entry("empty", 0.3), entry("stale", 0.4), entry("truncate", 0.5))
    matcher, first = FaultMatcher(1, faults.faults), dict.fromkeys(("empty", "stale", "truncate", None), 0)
    for number in range(4000):
        met = matcher.match(IncomingTry("search", "GET", "/", Request, f"{number}", "e", 1, 1, 1, 0.0)).met
        first[met[0][0].id if met else None] += 1
    for one in marginals(faults):
        assert abs(first[one.id] / 4000 - one.low) < 2.58 * (one.low * (1 - one.low) / 4000) ** 0.5


@pytest.mark.parametrize("kind", REGISTRY.values(), ids=lambda kind: kind.name)
def test_of_every_fault_it_can_be_told_whether_it_only_delays(kind):
    required = {name for name, info in kind.model_fields.items() if info.is_required()}
    if not required:
        assert only_delays(kind()) is (kind.name == "delay")


def test_conditions_read_as_in_a_file():
    given = entry(
        "empty", 0.5, when={"nth": "2-4", "of": "try"}, only={"method": "POST", "json": {"to": "Bob"}}
    )
    [one] = a_set(given).faults
    assert conditions_of(one.when, one.only) == "nth 2-4, of try, method POST, json to=Bob"
    given = entry("empty", 0.5, when={"window": {"end": 3, "ramp": 1}, "persistent": True})
    [one] = a_set(given).faults
    assert conditions_of(one.when, one.only) == "window end=3 ramp=1, persistent"
