"""pass^k, pass@k and consistency as estimates: open tries at both ends, and the tries that would decide."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirefault.experiments.estimates import Population
from wirefault.experiments.tries import OverTries

POPULATIONS: st.SearchStrategy[Population] = st.sampled_from(["these", "like_these"])
NAMES = st.sampled_from(["pass^1", "pass^3", "pass@2", "consistency"])
OUTCOMES = st.dictionaries(
    st.tuples(st.sampled_from("ab"), st.integers(2, 5)).map(lambda each: f"{each[0]}.r{each[1]}"),
    st.sampled_from([True, False, None]),
    min_size=1,
    max_size=6,
)


@given(NAMES, OUTCOMES, POPULATIONS)
def test_open_tries_count_at_both_ends(
    name: str, outcomes: dict[str, bool | None], population: Population
) -> None:
    """Whatever the open ones were, the figure and its interval lie within."""
    estimate = OverTries(name, outcomes, population)
    open_keys = [key for key, outcome in outcomes.items() if outcome is None]
    for values in product((True, False), repeat=len(open_keys)):
        known = OverTries(name, outcomes | dict(zip(open_keys, values, strict=True)), population)
        if estimate.ends is None:
            assert known.value is None and known.n == 0
            continue
        assert known.value is not None
        assert estimate.ends.low <= known.value + 1e-9 and known.value <= estimate.ends.high + 1e-9
        assert estimate.interval(0.05).low <= known.interval(0.05).low + 1e-9
        assert known.interval(0.05).high <= estimate.interval(0.05).high + 1e-9


def test_missing_episodes_and_too_few_tries_leave_it_open() -> None:
    tries = {"p": True, "p.r2": True}
    for estimate in (OverTries("pass^2", tries, missing=1), OverTries("pass^3", tries)):
        interval = estimate.interval(0.05)
        assert (estimate.value, interval.low, interval.high) == (None, 0, 1)


@pytest.mark.parametrize("population", ["these", "like_these"])
def test_needed_tries_decide(population: Population) -> None:
    outcomes = {f"p{prompt}.r{n}": True for prompt in range(4) for n in range(2, 7)}
    estimate = OverTries("pass^3", outcomes, population)
    needed = estimate.needed(">=", 0.8, 0.05)
    assert needed is not None and needed % estimate.n == 0 and needed > estimate.n
    prompts, tries = (4, needed // 4) if population == "these" else (needed // 5, 5)
    more = {f"p{prompt}.r{n}": True for prompt in range(prompts) for n in range(2, tries + 2)}
    assert OverTries("pass^3", more, population).interval(0.05).low >= 0.8
