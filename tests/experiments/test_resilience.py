"""The tables of an arm's failures, by figures computed by hand."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from tests.experiments.test_each_measure import FAULTED_RIGHT, FAULTED_WRONG
from tests.experiments.test_failure_measures import THREE_TRIES
from tests.experiments.test_outages import BACK, FINE, HIDDEN, LOST
from tests.judging.test_summary import GOOD, run
from tests.support import replace
from wirefault.experiments.arms import facts_of_one
from wirefault.experiments.estimates import Terms
from wirefault.experiments.facts_store import facts_of
from wirefault.experiments.figures import against_control, measures_of
from wirefault.experiments.outages import EpisodeOutages
from wirefault.experiments.resilience import Resilience
from wirefault.experiments.verdict import ArmResult
from wirefault.report.resilience import print_resilience


def resilience(*episodes: Any, control: tuple[Any, ...] = (), hypothesis: tuple[str, ...] = ()) -> Resilience:
    arms = [facts_of_one(facts_of("a", run(*each))) for each in (episodes, control)]
    measures = measures_of(arms[0])
    if control:
        measures = against_control(measures, measures_of(arms[1]))
    return Resilience(arms[0], measures, Terms(), hypothesis)


def printed(failures: Resilience) -> str:
    console = Console(file=io.StringIO(), width=130)
    print_resilience(console, [ArmResult("method", ("m",), (), failures.measures, resilience=failures)])
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_costs_are_per_episode_and_against_control() -> None:
    costs = {each.name: each for each in resilience(THREE_TRIES, FINE, control=(FINE, FINE)).costs}
    seconds = costs["cost_of_faults_seconds"]
    assert (seconds.figure.value, seconds.figure.n) == (0.25, 2)
    assert seconds.added is not None and seconds.added.value == 0.25
    assert seconds.figure.as_json()["high"] is None  # two episodes bound nothing
    assert costs["cost_of_faults_usd"].figure.bounds is None
    assert "prices" in costs["cost_of_faults_usd"].figure.text
    assert all(each.added is None for each in resilience(THREE_TRIES).costs)


def test_rise_of_zero_is_a_figure() -> None:
    costs = resilience(THREE_TRIES, control=(THREE_TRIES,)).as_json()["cost_of_faults"]
    assert {each["added"]["estimate"] for each in costs if each["estimate"] is not None} == {0}


def test_costs_have_interval_from_twenty_episodes() -> None:
    [seconds] = [
        each for each in resilience(*[THREE_TRIES] * 20).costs if each.name.endswith("faults_seconds")
    ]
    assert seconds.figure.interval == (0.5, 0.5)


def test_recovery_is_by_link_fault_and_operation() -> None:
    rows = {(row.by, row.name): row for row in resilience(BACK, BACK, LOST).recovery}
    assert set(rows) == {
        ("all", "all"),
        ("link", "message"),
        ("fault", "none known"),
        ("operation", "message: GET /"),
    }
    every = rows["all", "all"].figures
    assert (every["failures"], every["recovered"], every["p50_seconds"], every["p90_seconds"]) == (
        3,
        2,
        2,
        None,
    )
    assert every["mttr_is_lower_bound"] and every["mttr_seconds"] == pytest.approx(2 + 3 / 3)
    assert resilience(FINE).recovery == []


def test_unknown_end_widens_recovery_rate() -> None:
    facts = resilience(BACK, LOST).arm
    lost = facts.episodes[1]
    [outage] = lost.outages.outages
    perhaps = replace(lost, outages=EpisodeOutages([replace(outage, end="unknown")], whole=True))
    known = replace(facts, episodes=[facts.episodes[0], perhaps])
    row = Resilience(known, measures_of(known), Terms()).recovery[0]
    assert (row.unknown, row.figures["recovered"], row.figures["recovery_rate"]) == (1, 1, None)
    low, high = row.figures["recovery_rate_interval"]
    assert low == pytest.approx(1 - 0.95**0.5) and high == 1


def test_reliability_counts_an_episode_as_one_cluster() -> None:
    [row] = resilience(THREE_TRIES, FINE, LOST).reliability
    assert (row["operation"], row["n"], row["nines"]) == ("message: GET /", 3, 0)
    assert row["availability"] == pytest.approx(2 / 3)
    assert row["p99_seconds"] == pytest.approx(2.1)  # from 103 s to the end of the third try
    assert resilience(GOOD).reliability == []


def test_error_budget_is_of_the_objectives_in_the_hypothesis() -> None:
    texts = ("no crash and availability >= 90 %", "success_rate >= 50 %", "availability <= 99 %")
    [calls, episodes] = resilience(*[FINE] * 18, LOST, LOST, hypothesis=texts).error_budgets
    assert (calls.statement, calls.n) == ("availability >= 90 %", 20)
    assert calls.budget.total == pytest.approx(2) and calls.budget.consumed == 2
    assert calls.budget.remaining == pytest.approx(0) and calls.budget.burn_rate == pytest.approx(1)
    low, high = calls.budget.burn
    assert 0.1 < low < 1 < high < 3
    assert (episodes.budget.consumed, episodes.n) == (0, 20)
    assert resilience(FINE, HIDDEN, hypothesis=texts[:1]).error_budgets == []


def test_recovery_quality_has_five_parts_and_no_sum() -> None:
    quality = dict(resilience(FAULTED_RIGHT, FAULTED_WRONG, GOOD, control=(GOOD, GOOD, GOOD)).quality)
    assert list(quality) == [
        "correctness",
        "completeness",
        "timeliness",
        "resource efficiency",
        "state consistency",
    ]
    assert (quality["correctness"].value, quality["correctness"].n) == (0.5, 2)
    assert quality["timeliness"].value == 1
    assert "no oracle" in quality["state consistency"].text


def test_json_has_no_infinite_figures() -> None:
    document = resilience(BACK, LOST, control=(FINE, FINE), hypothesis=("availability >= 90 %",)).as_json()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert list(document) == [
        "cost_of_faults",
        "amplification",
        "recovery",
        "reliability",
        "error_budgets",
        "recovery_quality",
    ]


def test_console_has_tables_only_where_something_failed() -> None:
    assert printed(resilience(FINE, control=(FINE,))) == ""
    output = printed(resilience(BACK, LOST, control=(FINE, FINE), hypothesis=("availability >= 90 %",)))
    assert "method all all 2 1 ≥ 3.5 s 2 s - - -" in " ".join(output.split())
    assert "method, error budget of availability >= 90 %: 1 of 0.2 failures used, -400 % left" in output
    assert "recovery quality" not in output  # no fault reached it
    assert "correctness          50 % (1 of 2 episodes)" in printed(resilience(FAULTED_RIGHT, FAULTED_WRONG))
