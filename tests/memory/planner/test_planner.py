"""Proposals as experiments: checks, safe ranges, shorter times, and the caller's hooks."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirefault.audit.calls import Call, CallKey
from wirefault.core.errors import InputError
from wirefault.experiments.experiment import Experiment
from wirefault.experiments.figures import known_names
from wirefault.memory.episodes import Remembered, RememberedFault, RememberedFinding
from wirefault.memory.planner.choose import Terms
from wirefault.memory.planner.enhance import clamped, enhanced, metrics_for, shortened
from wirefault.memory.planner.planner import Planner, add_hooks
from wirefault.memory.planner.risk import Profile, four_part_score
from wirefault.memory.trials import Trial

CALL = Call(CallKey("shop", "POST /orders"), 1, "write", {"method": "POST", "path": "/orders"}, executed=True)
CLEAN = Remembered("e1", "control", "r1", "buy", "subject a", 1.0, 2.0, "success", "success", calls=(CALL,))


def faulted(fault: str, dose: float, *, fine: bool, **changes: Any) -> Remembered:
    delivered = RememberedFault(
        fault, "shop", ("link shop", "tool shop POST /orders"), {"limit": dose}, f"{fault}-{dose:g}"
    )
    outcome, result = ("success", "success") if fine else ("duplicate", "unsafe")
    return replace(
        CLEAN, arm="method", faults=(delivered,), calls=(), outcome=outcome, result=result, **changes
    )


EXPERIMENT = {
    "title": "Old",
    "wiring": "lab",
    "limits": {"time": 100},
    "method": {
        "faults": {
            "faults": [
                {"fault": "hang", "links": ["shop"], "with": {"limit": 60}, "during": {"duration": 50}}
            ]
        }
    },
}


def test_proposal_is_an_experiment_that_can_be_read() -> None:
    planner = Planner([CLEAN])
    first = next(planner.proposals(planner.cells(["buy"])))
    written = planner.experiment({"wiring": "lab", "prompts": [{"prompt": "Buy", "id": "buy"}]}, first)
    experiment = Experiment(**written.experiment)
    assert experiment.title == "POST /orders of shop, reply lost after it was carried out"
    assert experiment.only == ["buy"] and "Risk of harm 30%" in experiment.description
    assert first.risk.scores["total"] == pytest.approx(0.3 * 0.5 + 0.3 + 0.2 * 0.5 + 0.2 * 2 / 300)


def test_past_failures_call_for_checks_that_are_executed() -> None:
    waited = RememberedFinding("no_time_limit", ())
    past = [CLEAN, faulted("hang", 6, fine=False, findings=(waited,))]
    planner = Planner(past)
    first = next(planner.proposals(planner.cells(["buy"])))
    written = planner.experiment({"wiring": "lab"}, first)
    names = [check.name for check in written.checks]
    assert names == ["monitoring", "rollback", "timeout", "prevent_duplicate", "prevent_no_time_limit"]
    experiment = Experiment(**written.experiment)
    assert experiment.safety.abort and experiment.steady_state == ["crash == 0"]
    assert {"no_finding": "no_time_limit"} in written.experiment["checks"]
    assert "seconds <= 6" in written.experiment["checks"]


def test_metrics_to_watch_are_measured_or_named_as_not_measured() -> None:
    rows = known_names(with_control=True)
    for link, further in {
        "shop": set(),
        "orders-db": {"connection_count", "query_latency", "transaction_rate"},
        "redis_cache": {"hit_rate", "eviction_rate", "memory_fragmentation"},
    }.items():
        metrics = {each.name: each.measure for each in metrics_for(link)}
        assert set(metrics) == {"cpu_usage", "memory_usage", "error_rate", "latency"} | further
        measured = {name: measure for name, measure in metrics.items() if measure}
        assert set(measured) == {"error_rate", "latency"} and set(measured.values()) <= set(rows)


def test_known_calls_make_cells_from_small_doses() -> None:
    planner = Planner([CLEAN])
    hangs = [cell for cell in planner.cells(["buy"]) if cell.fault == "hang"]
    assert [cell.dose for cell in hangs] == [2, 6, 15]
    assert hangs[0].entries[0]["with"]["limit"] == 2
    assert hangs[0].entries[0]["only"] == {"method": "POST", "path": "/orders"}
    assert planner.cells(["other"]) == []


def test_enhanced_experiment_stays_in_safe_ranges_and_shortens() -> None:
    before = deepcopy(EXPERIMENT)
    survived = [faulted("hang", 2, fine=True), faulted("hang", 6, fine=True), CLEAN]
    trials = [trial(20.0), trial(40.0), trial(30.0)]
    better = Planner(survived).enhance(EXPERIMENT, trials)
    [entry] = better["method"]["faults"]["faults"]
    assert entry["with"]["limit"] == 6 and entry["during"]["duration"] == 30
    assert better["limits"]["time"] == 30 and before == EXPERIMENT
    left = enhanced(EXPERIMENT, [], trials, beyond_safe=True)
    assert left["method"]["faults"]["faults"][0]["with"]["limit"] == 60


def test_proposed_numbers_other_than_the_dose_stay_in_safe_ranges() -> None:
    [cell] = [each for each in Planner([CLEAN]).cells(["buy"]) if each.id.startswith("write_429")]
    waited = RememberedFault(cell.fault, "shop", ("link shop",), {"retry_after": 1.0}, "mine")
    past = [CLEAN, replace(CLEAN, arm="method", faults=(waited,), calls=(), key="buy.r2")]
    [clamped_entry] = Planner(past).entries(cell)
    assert clamped_entry["with"]["retry_after"] == 1 and cell.entries[0]["with"]["retry_after"] == 2
    [as_it_was] = Planner(past, terms=Terms(beyond_safe=True)).entries(cell)
    assert as_it_was["with"]["retry_after"] == 2
    [hang, *_] = [each for each in Planner(past).cells(["buy"]) if each.dose == 15]
    survived = [CLEAN, faulted("hang", 6, fine=True)]
    assert Planner(survived).entries(hang)[0]["with"]["limit"] == 15  # the next dose is beyond those survived


def trial(duration: float, outcome: str = "success") -> Trial:
    return Trial("e0", "method", 0.0, "hang", "link shop", {}, outcome, 1.0, 1, None, (), duration, ())


def test_nothing_is_lengthened() -> None:
    assert shortened(10, [trial(20.0), trial(30.0)]) == 10
    assert shortened(10, [trial(1.0, "failure")]) == 10
    assert shortened(10, [trial(math.nan)]) == 10


def test_hooks_of_the_caller() -> None:
    planner = Planner([CLEAN])
    planner.add_custom_knowledge("critical", ["link bank"])
    assert planner.get_custom_knowledge("critical") == ["link bank"]
    assert planner.get_custom_knowledge("other") is None
    planner.add_custom_risk_factor("night", lambda proposal: math.nan)
    planner.add_custom_enhancement("tagged", lambda experiment: {**experiment, "tags": ["mine"]})
    first = next(planner.proposals(planner.cells(["buy"])))
    assert first.risk.scores["night"] == 0.5 and 0 <= first.risk.scores["total"] <= 1
    assert planner.experiment({"wiring": "lab"}, first).experiment["tags"] == ["mine"]
    planner.add_custom_enhancement("broken", lambda experiment: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(InputError, match="enhancement broken: must return the experiment"):
        planner.experiment({"wiring": "lab"}, first)


def test_failing_hooks_are_named() -> None:
    def broken(value: Any) -> Any:
        raise RuntimeError("no")

    planner = Planner([CLEAN])
    first = next(planner.proposals(planner.cells(["buy"])))
    planner.add_custom_enhancement("broken", broken)
    with pytest.raises(InputError, match="enhancement broken: raised RuntimeError: no"):
        planner.experiment({"wiring": "lab"}, first)
    planner.add_custom_risk_factor("night", broken)
    with pytest.raises(InputError, match="risk factor night: raised RuntimeError: no"):
        planner.scored(first)
    with pytest.raises(InputError, match="--hooks: must be module:function"):
        add_hooks(planner, ["mine"])
    with pytest.raises(InputError, match="--hooks: json:missing: unknown function"):
        add_hooks(planner, ["json:missing"])


def test_each_part_of_the_score_makes_a_difference() -> None:
    calm = Profile(success=1.0, affected={"link b": 0.0}, safe={"limit": (1, 10)}, is_known=True)
    score = four_part_score(calm, {"limit": 5}, 0.0)
    assert score == {"base": 0, "impact": 0, "parameter": 0, "duration": 0, "total": 0}
    failing = replace(calm, success=0.0)
    assert four_part_score(failing, {"limit": 5}, 0.0)["total"] == pytest.approx(0.3)
    critical = replace(calm, critical=("link b",))
    assert four_part_score(critical, {"limit": 5}, 0.0)["total"] == pytest.approx(0.3 * 0.7)
    assert four_part_score(calm, {"limit": 15}, 0.0)["total"] == pytest.approx(0.2 * 0.5)
    assert four_part_score(calm, {"limit": 5}, 150.0)["total"] == pytest.approx(0.2 * 0.5)
    assert four_part_score(calm, {"limit": 5}, 0.0, {"mine": 1.0})["total"] == pytest.approx(0.5)


numbers = st.floats(allow_nan=True, allow_infinity=True)


@given(numbers, st.dictionaries(st.text(max_size=3), numbers, max_size=3), numbers, numbers, numbers, numbers)
def test_scores_are_bounded_whatever_the_figures(
    success: float, affected: dict[str, float], low: float, high: float, dose: float, seconds: float
) -> None:
    for known in (True, False):
        profile = Profile(success, affected, tuple(affected), {"limit": (low, high)}, is_known=known)
        scores = four_part_score(profile, {"limit": dose}, seconds, {"own": dose})
        assert all(0 <= each <= 1 for each in scores.values())


@given(numbers, st.floats(-1e9, 1e9), st.floats(0, 1e9))
def test_clamped_number_is_within(number: float, low: float, size: float) -> None:
    assert low <= clamped(number, low, low + size) <= low + size


def test_proposals_are_lazy_and_ordered() -> None:
    planner = Planner([CLEAN])
    first, second = islice(planner.proposals(planner.cells(["buy"])), 2)
    assert first.reason == second.reason == "unasked question" and first.cell != second.cell
