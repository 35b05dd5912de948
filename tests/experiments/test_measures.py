"""Measures of runs: unknown parts leave them open; missing data has no figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import pytest

from tests.judging.oracle.histories import ASK_BOB, ended, episode, exchange, fault_met, healed, tried
from tests.judging.test_summary import BAD, GOOD, INVALID, NO_ORACLE, run
from tests.support import replace
from wirefault.experiments.arms import facts_of_one
from wirefault.experiments.expression import Bounds, exactly
from wirefault.experiments.facts_store import facts_of
from wirefault.experiments.figures import against_control, known_names, measures_of, unit_of
from wirefault.experiments.measure import Measure, Number
from wirefault.experiments.verdict import ArmResult
from wirefault.judging.summary import summarise
from wirefault.report.experiment import arm_line

OF_MODEL = {"link": "model", "dialect": "openai_chat", "model": "m", "tokens_in": 10, "tokens_out": 5}


def measured(*episodes: Any, prompts: int | None = None, **settings: Any) -> dict[str, Measure]:
    events = run(*episodes, prompts=prompts, **settings)
    return measures_of(facts_of_one(facts_of("a", events)))


def measured_tries(*episodes: Any, passes: Sequence[str]) -> dict[str, Measure]:
    """The measures of repeats of one prompt."""
    arm = facts_of_one(facts_of("a", run(*episodes)))
    repeats = [
        replace(each, judged=replace(each.judged, episode=f"p.r{n}"))
        for n, each in enumerate(arm.episodes, 1)
    ]
    return measures_of(replace(arm, episodes=repeats), passes=passes)


@pytest.mark.parametrize(
    ("name", "bounds", "expected"),
    [
        ("success_rate", Bounds(Fraction(2, 6), Fraction(5, 6)), "33.3 % to 83.3 % [6.28 %, 99.1 %]"),
        ("success", Bounds(2, 5), "2 to 5 of 6"),
        ("failures", Bounds(1, 4), "1 to 4 of 6"),
        ("all", exactly(6), "6"),
        ("false_success", Bounds(1, 4), "1 to 4 of 6"),
        ("duplicate", Bounds(0, 2), "0 to 2 of 6"),
        ("crash", Bounds(0, 2), "0 to 2 of 6"),
        ("invalid", Bounds(1, 3), "1 to 3 of 6"),
        ("faults_delivered", exactly(0), "0"),
    ],
)
def test_unjudged_episode_leaves_outcome_open(name: str, bounds: Bounds, expected: str) -> None:
    measure = measured(GOOD, GOOD, BAD, INVALID, NO_ORACLE, prompts=6)[name]
    assert (measure.bounds, measure.text) == (bounds, expected)


@pytest.mark.parametrize("name", ["success_rate", "success", "failures", "false_success", "degradation"])
def test_figure_of_episodes_without_oracle_is_not_judged(name: str) -> None:
    """Its bounds leave everything open, and its text does not show them."""
    measures = measured(NO_ORACLE, NO_ORACLE)
    measure = against_control(measures, measures)[name]
    assert measure.bounds in (Bounds(0, 1), Bounds(0, 2), Bounds(-1, 1))
    assert (measure.text, Number.of(name, measure).as_json()["note"]) == ("not judged", "not judged")


def test_summary_and_table_have_one_rate() -> None:
    """The summary's rate is the table's share of the judged, its ends are the bounds of the table's rate."""
    episodes = GOOD, GOOD, BAD, INVALID, NO_ORACLE
    measures, rate = measured(*episodes, prompts=6), summarise(run(*episodes, prompts=6)).success
    bounds = measures["success_rate"].bounds
    assert bounds is not None
    assert rate.rate == pytest.approx(measures["success_share"].value) == pytest.approx(2 / 3)
    assert (rate.worst, rate.best) == (pytest.approx(float(bounds.low)), pytest.approx(float(bounds.high)))


def test_known_count_has_interval_and_episodes() -> None:
    measure = measured(GOOD, BAD, BAD)["false_success"]
    assert (measure.bounds, measure.text) == (exactly(2), "2 of 3 [13.5 %, 98.3 %]")
    assert measure.episodes == ("002", "003")


def test_too_few_successes_name_failed_episodes() -> None:
    measures = measured(GOOD, BAD, INVALID, BAD)
    assert measures["success"].episodes == measures["failures"].episodes == ("002", "004")
    assert measures["all"].episodes == ()


def test_arm_line_counts_claims_where_no_oracle_checks_them() -> None:
    arm = facts_of_one(facts_of("a", run(GOOD, NO_ORACLE, NO_ORACLE)))
    result = ArmResult("method", ("a",), (), measures_of(arm), claims=arm.claims)
    assert result.claims.n == 2
    assert arm_line(result).plain.endswith(f"; {result.claims.text}")
    assert "claims, not checked: 2 of 2 said done (100 %, 95 % interval" in result.claims.text
    judged = facts_of_one(facts_of("a", run(GOOD)))
    assert judged.claims.n == 0
    calm = ArmResult("method", ("a",), (), measures_of(judged), claims=judged.claims)
    assert "claims" not in arm_line(calm).plain


def test_unreadable_claim_leaves_false_success_open() -> None:
    unclear = episode(ended(ended_by="text", response="It is done, I think"), expect=ASK_BOB)
    measures = measured(GOOD, unclear)
    assert measures["failure"].bounds == exactly(1)
    assert measures["false_success"].bounds == Bounds(0, 1)
    assert measures["duplicate"].bounds == exactly(0)


def test_no_data_has_no_figure() -> None:
    nothing = measured(prompts=0)
    without = {name for name, measure in nothing.items() if measure.bounds is None}
    assert without >= {"success_rate", "success_share", "p50", "p95", "p99", "tokens", "cost"}


def test_delivered_faults_are_counted() -> None:
    struck = episode(
        tried(error="server_error", status=503), exchange(status=503, fault=fault_met()), expect={}
    )
    assert measured(struck)["faults_delivered"].bounds == exactly(1)
    invalid = episode(
        exchange(status=503, fault=fault_met()),
        tried(error="server_error", status=503),
        healed(invalid="the lab failed"),
        expect={},
    )
    both = measured(struck, invalid)["faults_delivered"]
    assert (both.bounds, both.text) == (exactly(1), "1 and 1 in invalid episodes")


def test_arm_is_compared_with_control() -> None:
    difference = against_control(measured(GOOD, BAD, GOOD), measured(GOOD, GOOD, INVALID))
    assert difference["degradation"].bounds == Bounds(0, Fraction(1, 3))
    assert difference["control_success"].bounds == Bounds(2, 3)
    assert set(difference) == set(known_names(with_control=True))


def test_measure_is_a_number_that_people_format():
    measures = measured(GOOD, INVALID)
    rate = Number.of("success_rate", measures["success_rate"])
    assert math.isnan(rate) and rate.bounds == (0.5, 1) and str(rate).startswith("50 % to 100 % [")
    known = Number.of("success_rate", measured(GOOD)["success_rate"])
    assert (f"{known:.0%}", known.unit, str(known)) == ("100%", "share", known.text)
    assert known.interval is not None and known.interval[0] < 1 == known.interval[1]
    names = ("mttr", "added_cost", "control_tokens", "crash")
    assert [unit_of(name) for name in names] == ["s", "USD", "tokens", ""]
