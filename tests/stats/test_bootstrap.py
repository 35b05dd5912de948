"""Intervals of means by the studentised bootstrap."""

from __future__ import annotations

import math
import random

import pytest

from wirefault.stats.bootstrap import RatioOfSums


def test_same_values_have_same_interval() -> None:
    draws = random.Random(1)
    values = [draws.expovariate(1) for _ in range(40)]
    first, second = (RatioOfSums(values, [1.0] * 40).interval(0.05) for _ in range(2))
    assert first == second and first[0] < sum(values) / 40 < first[1]


def test_few_units_have_no_interval() -> None:
    assert RatioOfSums([1.0] * 19, [1.0] * 19).interval(0.05) == (-math.inf, math.inf)
    assert RatioOfSums([3.0] * 20, [1.0] * 20).interval(0.05) == (3.0, 3.0)


def test_ratio_is_of_sums_not_mean_of_ratios() -> None:
    assert RatioOfSums([1.0, 9.0], [1.0, 3.0]).value == 2.5


@pytest.mark.slow
def test_interval_covers_skewed_mean() -> None:
    draws, misses, runs = random.Random(7), [0, 0], 400
    for _ in range(runs):
        low, high = RatioOfSums([draws.expovariate(1) for _ in range(60)], [1.0] * 60).interval(0.05)
        misses = [misses[0] + (low > 1), misses[1] + (high < 1)]
    assert max(misses) / runs <= 0.075, misses
