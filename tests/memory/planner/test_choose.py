"""The choice of the next cells, on paper and in simulated systems."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from statistics import mean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.next_experiments import (
    FIRST_SEED,
    POPULATIONS,
    calibration,
    compare,
    predictions,
    simulated_cells,
)
from tests.support import ROOT
from wirefault.experiments.search.chain import Risk
from wirefault.memory.planner.cells import Cell
from wirefault.memory.planner.choose import Proposal, Terms, proposals
from wirefault.memory.planner.risk import Tally

CELLS = simulated_cells()
LADDER = [cell for cell in CELLS if cell.ladder == "fault-5-link-1"]
FINE, BAD = Tally(delivered=1), Tally(delivered=1, bad=1, harm=1)


def chosen(
    past: Mapping[str, Tally] = {},
    now: Mapping[str, Tally] = {},
    cells: list[Cell] = LADDER,
    **terms: object,
) -> list[Proposal]:
    return list(proposals(cells, past, now, Terms(**terms)))  # type: ignore[arg-type]


def test_unasked_question_starts_at_smallest_dose() -> None:
    [first] = chosen()
    assert (first.reason, first.cell.dose) == ("unasked question", 1)
    assert "from the smallest dose" in first.because


def test_survived_dose_is_raised_by_one() -> None:
    [first] = chosen(now={LADDER[0].id: FINE})
    assert (first.reason, first.cell.dose) == ("edge of a safe range", 2)
    assert "survived dose 1 in 1 episode; next dose 2" in first.because


def test_dose_beyond_a_failure_needs_permission() -> None:
    failed = {LADDER[0].id: BAD}
    assert chosen(now=failed)[0].cell.dose == 1
    assert chosen(now=failed, beyond_safe=True)[0].cell.dose == 2


def test_earlier_failure_is_confirmed_first() -> None:
    first = chosen(past={LADDER[0].id: BAD}, cells=CELLS)[0]
    assert (first.reason, first.cell.id) == ("regression", LADDER[0].id)
    assert not any(
        each.reason == "regression"
        for each in chosen(past={LADDER[0].id: BAD}, now={LADDER[0].id: BAD}, cells=CELLS)
    )


def test_nothing_is_worth_asking_after_enough_episodes() -> None:
    whole = {cell.id: Tally(delivered=3) for cell in LADDER}
    assert chosen(now=whole) == []
    assert chosen(now=whole, enough=4)[0].reason == "widest interval"


def test_fault_that_is_never_delivered_is_given_up() -> None:
    assert chosen(now={LADDER[0].id: Tally(absent=2)}) == []


def test_survivors_are_tried_in_pairs_at_different_components() -> None:
    both = [cell for cell in CELLS if cell.id in ("fault-1-link-1-1", "fault-2-link-2-1")]
    fine = {cell.id: Tally(delivered=3) for cell in both}
    [pair] = chosen(now=fine, cells=both)
    assert (pair.reason, pair.cell.id) == ("untested pair", "fault-1-link-1-1+fault-2-link-2-1")
    assert chosen(now={**fine, pair.cell.id: FINE}, cells=both) == []


def test_risk_above_limit_is_not_proposed() -> None:
    risky = {LADDER[0].id: Tally(delivered=2, bad=2, harm=2)}
    assert chosen(now=risky, max_risk=0.3) == []
    assert chosen(now=risky)[0].risk.evidence.startswith("harm in 2 of 2 at this dose")


def test_planner_finds_three_weaknesses_in_fewer_episodes_than_chance() -> None:
    planner, random = compare(25)
    assert mean(planner) < 0.7 * mean(random)


def error_of(population: str) -> float:
    """The mean difference between what was predicted and what happened."""
    predicted = list(predictions(range(FIRST_SEED, FIRST_SEED + 12), POPULATIONS[population], 60))
    return sum(abs(value - harm) * n for value, harm, n in calibration(predicted).values()) / len(predicted)


def test_predicted_harm_happens_as_often_as_predicted() -> None:
    assert error_of("some faults harm") < 0.06


def test_prediction_has_no_interval_and_the_page_says_for_which_systems_it_holds() -> None:
    assert error_of("deterministic") > 0.06  # each rate is 0 or 1, which no interval from the prior holds
    assert {each.name for each in fields(Risk)} == {"value", "evidence", "scores"}
    page = (ROOT / "docs" / "planner.md").read_text(encoding="utf-8")
    means = [a / (a + b) for a, b in filter(None, POPULATIONS.values())]
    assert re.findall(r"^\| beta\(.+, mean (\S+) \|", page, re.MULTILINE) == [f"{mean:g}" for mean in means]
    assert "| always or never, mean" in page and "No interval is printed" in page


tallies = st.builds(
    lambda delivered, bad, harm, absent: Tally(
        delivered, min(bad, delivered), min(harm, bad, delivered), absent
    ),
    *[st.integers(0, 10_000)] * 4,
)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from([cell.id for cell in CELLS]), tallies, max_size=8))
@pytest.mark.filterwarnings("error")
def test_risk_is_a_probability_whatever_was_seen(seen: dict[str, Tally]) -> None:
    for proposal, _ in zip(proposals(CELLS, seen, {}), range(20), strict=False):
        risk = proposal.risk
        assert 0 <= risk.value <= 1
