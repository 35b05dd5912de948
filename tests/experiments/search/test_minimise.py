"""The smallest failing set of faults: simulated agents, and searches that have no such set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from statistics import mean

import pytest

from bench.search import search_pair
from wirefault.experiments.search.minimise import (
    Ask,
    FaultNames,
    Smallest,
    Terms,
    decide,
    fewest_left,
    next_step,
)

SURE = Terms(0.9, 0.1, 0.1)
NAMES = list("abcdefgh")


def searched(
    fails: Callable[[FaultNames], bool], terms: Terms = SURE, names: Sequence[str] = NAMES
) -> Smallest:
    """The result for an agent that fails in the same way in each episode."""
    outcomes: dict[FaultNames, list[bool]] = {}
    while isinstance(step := next_step(names, terms, outcomes), Ask):
        outcomes.setdefault(step.faults, []).extend([fails(step.faults)] * step.episodes)
    return step


def test_pair_among_twelve_is_reached_exactly() -> None:
    exact, episodes = zip(*map(search_pair, range(25)), strict=True)
    assert mean(exact) >= 0.95
    assert mean(episodes) < 299


@pytest.mark.parametrize("smallest", ["a", "h", "ah", "cde", "abcdefgh"])
def test_result_is_smallest_set(smallest: str) -> None:
    result = searched(lambda names: names.issuperset(smallest))
    assert ("".join(result.faults), result.state) == (smallest, "minimal")


def test_fault_that_hides_others_is_no_obstacle() -> None:
    result = searched(lambda names: {"a", "e"} <= names and ("b" not in names or len(names) == 8))
    assert (result.faults, result.state) == (("a", "e"), "minimal")


def test_agents_without_such_set() -> None:
    assert searched(lambda _: False).state == "passes"
    assert searched(lambda _: True).state == "fails without"


def test_rate_between_both_is_undecided_at_cap() -> None:
    outcomes = {frozenset(NAMES): [True, False] * 3}
    assert isinstance(next_step(NAMES, SURE, outcomes), Ask)
    terms = Terms(0.9, 0.1, 0.1, cap=6)
    outcomes[frozenset()] = [False] * 6
    result = next_step(NAMES, terms, outcomes)
    assert isinstance(result, Smallest) and result.state == "undecided"


def test_too_many_decisions_leave_set_undecided() -> None:
    result = searched(lambda names: names.issuperset("ah"), Terms(0.9, 0.1, 0.1, decisions=4))
    assert result.state == "undecided" and set("ah") <= set(result.faults)


def test_decisions_are_wrong_at_most_as_often_as_said() -> None:
    terms, chance = Terms(0.6, 0.2, error=0.2, decisions=1), Random(1)
    wrong = 0
    for _ in range(400):
        outcomes = [chance.random() < terms.passes_at for _ in range(200)]
        wrong += decide(outcomes, terms) is True
    assert 0 < wrong / 400 <= 0.2


def test_fewest_left_is_what_a_decision_takes() -> None:
    for recorded in ([], [True], [False, False], [True, False, True]):
        left = fewest_left(recorded, SURE)
        assert decide(recorded, SURE) is None
        ends = [decide([*recorded, *[end] * left], SURE) for end in (True, False)]
        assert ends != [None, None]
        assert [decide([*recorded, *[end] * (left - 1)], SURE) for end in (True, False)] == [None, None]


@pytest.mark.parametrize("wrong", [(0.2, 0.2), (1.0, 0.1), (0.5, 0.0)])
def test_rates_without_order_are_refused(wrong: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="passes_at"):
        Terms(*wrong)
