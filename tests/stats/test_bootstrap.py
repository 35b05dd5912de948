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


@pytest.mark.parametrize("n", [20, 50])
def test_interval_is_that_of_plain_formulas(n: int) -> None:
    draws = random.Random(n)
    above = [draws.expovariate(1) for _ in range(n)]
    below = [float(draws.randint(1, 3)) for _ in range(n)]

    def estimate(units: list[tuple[float, float]]) -> tuple[float, float]:
        total = math.fsum(b for _, b in units)
        ratio = math.fsum(a for a, _ in units) / total
        squares = math.fsum((a - ratio * b) ** 2 for a, b in units)
        return ratio, math.sqrt(squares * n / (n - 1)) / total

    units, resamples = list(zip(above, below, strict=True)), random.Random(1)
    ratio, spread = estimate(units)
    differences = []
    for _ in range(999):
        other, other_spread = estimate(resamples.choices(units, k=n))
        differences.append((other - ratio) / other_spread)
    differences.sort()
    rank = 37  # of 999 resamples, at the calibrated error
    expected = (ratio - differences[-rank] * spread, ratio - differences[rank - 1] * spread)
    assert RatioOfSums(above, below).interval(0.05) == pytest.approx(expected)
