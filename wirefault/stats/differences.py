"""The difference of two success rates with its interval. No data gives None."""

from __future__ import annotations

import math
from dataclasses import dataclass

from wirefault.stats.intervals import wilson


@dataclass(frozen=True)
class Difference:
    """By how much the second share is greater than the first, of ``n`` (pairs, or the fewer of both).

    ``low`` and ``high``: the 95 % interval.
    """

    value: float
    low: float
    high: float
    n: int


def paired_difference(both: int, only_first: int, only_second: int, neither: int) -> Difference | None:
    """Of pairs, by which of the two was a success; None without any.

    R. G. Newcombe, "Improved confidence intervals for the difference between binomial proportions based on
    paired data", Statistics in Medicine 17 (1998), 2635-2650, method 10.
    """
    n = both + only_first + only_second + neither
    if not n:
        return None
    margins = (both + only_first, only_second + neither, both + only_second, only_first + neither)
    excess = both * neither - only_first * only_second
    corrected = max(excess - n / 2, 0) if excess > 0 else excess
    correlation = corrected / math.sqrt(math.prod(margins)) if all(margins) else 0.0
    return _of_shares(both + only_first, n, both + only_second, n, correlation)


def unpaired_difference(k_first: int, n_first: int, k_second: int, n_second: int) -> Difference | None:
    """Of two groups, by the successes in each; None if one is empty.

    R. G. Newcombe, "Interval estimation for the difference between independent proportions", Statistics in
    Medicine 17 (1998), 873-890, method 10.
    """
    if not n_first or not n_second:
        return None
    return _of_shares(k_first, n_first, k_second, n_second, 0.0)


def _of_shares(k_first: int, n_first: int, k_second: int, n_second: int, correlation: float) -> Difference:
    first, second = k_first / n_first, k_second / n_second
    low_1, high_1 = wilson(k_first, n_first) or (0.0, 1.0)
    low_2, high_2 = wilson(k_second, n_second) or (0.0, 1.0)
    down = _distance(second - low_2, high_1 - first, correlation)
    up = _distance(high_2 - second, first - low_1, correlation)
    value = second - first
    return Difference(value, max(value - down, -1.0), min(value + up, 1.0), min(n_first, n_second))


def _distance(one: float, other: float, correlation: float) -> float:
    return math.sqrt(max(one * one - 2 * correlation * one * other + other * other, 0.0))
