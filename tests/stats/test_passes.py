"""pass@k and pass^k: unbiased, with intervals that cover."""

from __future__ import annotations

import math
from itertools import product

import pytest
import scipy
from hypothesis import given
from hypothesis import strategies as st

from wirefault.stats.passes import Tries, consistency, pass_all, pass_any


@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("rate", [0.2, 0.95])
def test_estimates_are_unbiased(k: int, rate: float) -> None:
    """The expectation over all outcomes of 8 tries, exactly."""
    weights = scipy.stats.binom.pmf(range(9), 8, rate)
    every = [(pass_all([Tries(c, 8)], k), pass_any([Tries(c, 8)], k)) for c in range(9)]
    alls = sum(weight * each.value for weight, (each, _) in zip(weights, every, strict=True) if each)
    anys = sum(weight * each.value for weight, (_, each) in zip(weights, every, strict=True) if each)
    assert (alls, anys) == (pytest.approx(rate**k), pytest.approx(1 - (1 - rate) ** k))


@pytest.mark.parametrize("rates", [(0.9, 0.9), (0.5, 0.97), (0.1, 1.0)])
def test_intervals_cover_whatever_the_rates(rates: tuple[float, float]) -> None:
    """The coverage over all outcomes of 5 tries at two prompts, exactly."""
    truth = sum(rate**3 for rate in rates) / 2
    covered = 0.0
    for first, second in product(range(6), repeat=2):
        interval = pass_all([Tries(first, 5), Tries(second, 5)], 3)
        assert interval is not None
        weight = scipy.stats.binom.pmf(first, 5, rates[0]) * scipy.stats.binom.pmf(second, 5, rates[1])
        covered += weight * (interval.low <= truth <= interval.high)
    assert covered >= 0.9


def limits(successes: int, n: int, error: float) -> tuple[float, float]:
    """Clopper-Pearson's, by scipy."""
    interval = scipy.stats.binomtest(successes, n).proportion_ci(1 - 2 * error)
    return interval.low, interval.high


@given(st.lists(st.integers(0, 6), min_size=2, max_size=5), st.integers(2, 6))
def test_limits_equal_a_second_computation(successes: list[int], k: int) -> None:
    """The mean rate to the power of k; the prompts' own limits with a share of half the error each."""
    tries = [Tries(each, 6) for each in successes]
    rate, count = pass_all(tries, k), len(tries)
    value = sum(math.prod((each - i) / (6 - i) for i in range(k)) for each in successes) / count
    low = limits(sum(successes), 6 * count, 0.05)[0] ** k
    own = sum(limits(each, 6, 0.025 / count)[1] ** k for each in successes) / count
    high = min(limits(sum(successes), 6 * count, 0.025)[1], own)
    assert rate is not None and rate.value == pytest.approx(value)
    assert (rate.low, rate.high) == (pytest.approx(min(low, value)), pytest.approx(max(high, value)))


def test_prompts_with_too_few_tries_are_left_out() -> None:
    rate = pass_all([Tries(3, 3), Tries(1, 2)], 3)
    assert rate is not None and (rate.prompts, rate.value) == (1, 1.0) and rate.low < 0.9
    assert pass_all([Tries(1, 2)], 3) is None and pass_any([], 1) is None
    with pytest.raises(ValueError, match="at least 1"):
        pass_all([Tries(1, 1)], 0)


def test_consistency_is_share_of_pairs_that_end_alike() -> None:
    values = [consistency(tries) for tries in ([Tries(4, 4), Tries(0, 4)], [Tries(2, 4)], [Tries(1, 1)])]
    assert [value and value.value for value in values] == [1.0, pytest.approx(2 / 6), None]


@pytest.mark.parametrize("rates", [(0.9, 0.9), (0.5, 0.97), (0.1, 1.0), (0.5, 0.5)])
def test_consistency_covers_whatever_the_rates(rates: tuple[float, float]) -> None:
    truth = sum(rate**2 + (1 - rate) ** 2 for rate in rates) / 2
    covered = 0.0
    for first, second in product(range(6), repeat=2):
        interval = consistency([Tries(first, 5), Tries(second, 5)])
        assert interval is not None
        weight = scipy.stats.binom.pmf(first, 5, rates[0]) * scipy.stats.binom.pmf(second, 5, rates[1])
        covered += weight * (interval.low <= truth <= interval.high)
    assert covered >= 0.9


def test_other_prompts_need_several_and_count_once_each() -> None:
    one = pass_all([Tries(50, 50)], 3, like_these=True)
    assert one is not None and (one.low, one.high) == (0.0, 1.0)
    ten = pass_all([Tries(50, 50)] * 10, 3, like_these=True)
    assert ten is not None and ten.low == pytest.approx(scipy.stats.beta.ppf(0.05, 10, 1))
