"""Intervals and percentiles. No data gives None, never 0 or 1."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist

from wirefault.stats.exact import fisher, worse_by_chance


def wilson(k: float, n: float, confidence: float = 0.95) -> tuple[float, float] | None:
    """Return the Wilson score interval for a share of ``k`` in ``n``; None for n = 0.

    E. B. Wilson, "Probable inference, the law of succession, and statistical inference", Journal of the
    American Statistical Association 22 (1927), 209-212. Raises ``ValueError`` unless 0 <= k <= n.
    """
    if not 0 <= k <= n:
        raise ValueError(f"{k} of {n} is not a share")
    if n == 0:
        return None
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = k / n
    middle = share + z * z / (2 * n)
    spread = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # exact at the ends, where rounding would leave 1e-17
    low = 0.0 if k == 0 else (middle - spread) / scale
    high = 1.0 if k == n else (middle + spread) / scale
    return low, high


def percentile(values: Iterable[float], percent: float) -> float | None:
    """Return the nearest-rank percentile: the least value that at least ``percent`` of all do not exceed.

    It is always a measured value; with fewer than 100 values p99 is the largest. None for no data.
    """
    if not 0 <= percent <= 100:
        raise ValueError(f"{percent} is not a percentage")
    ordered = sorted(values)
    if not ordered:
        return None
    return ordered[max(1, math.ceil(len(ordered) * percent / 100)) - 1]


@dataclass(frozen=True)
class Difference:
    """The second share minus the first, with its interval."""

    value: float
    low: float
    high: float
    n: int  # pairs, or the size of the smaller group


def paired_difference(
    both: int, only_first: int, only_second: int, neither: int, confidence: float = 0.9
) -> Difference | None:
    """Return the difference of two success rates from paired trials; None without pairs.

    Newcombe's interval, which excludes 0 only if the exact McNemar test does: two pairs exclude nothing.
    """
    n = both + only_first + only_second + neither
    if not n:
        return None
    low, high = newcombe_paired(both, only_first, only_second, neither, confidence)
    value, error = (only_second - only_first) / n, (1 - confidence) / 2
    return _with_zero(value, low, high, n, _chance(only_first, only_second), error)


def _chance(only_first: float, only_second: float) -> float:
    return min(worse_by_chance(only_first, only_second), worse_by_chance(only_second, only_first))


def newcombe_paired(
    both: float, only_first: float, only_second: float, neither: float, confidence: float = 0.95
) -> tuple[float, float]:
    """Return the interval of the second share minus the first from paired trials.

    R. G. Newcombe, "Improved confidence intervals for the difference between binomial proportions based on
    paired data", Statistics in Medicine 17 (1998), 2635-2650, method 10. Counts may be effective ones.
    """
    n = both + only_first + only_second + neither
    margins = (both + only_first, only_second + neither, both + only_second, only_first + neither)
    excess = both * neither - only_first * only_second
    corrected = max(excess - n / 2, 0) if excess > 0 else excess
    correlation = corrected / math.sqrt(math.prod(margins)) if all(margins) else 0.0
    return _newcombe(both + only_first, n, both + only_second, n, correlation, confidence)


def unpaired_difference(
    k_first: int, n_first: int, k_second: int, n_second: int, confidence: float = 0.9
) -> Difference | None:
    """Return the difference of two groups' success rates; None if a group is empty.

    R. G. Newcombe, "Interval estimation for the difference between independent proportions", Statistics in
    Medicine 17 (1998), 873-890, method 10. It excludes 0 only if Fisher's exact test does.
    """
    if not n_first or not n_second:
        return None
    low, high = _newcombe(k_first, n_first, k_second, n_second, 0.0, confidence)
    value, error = k_second / n_second - k_first / n_first, (1 - confidence) / 2
    by_chance = min(
        fisher(k_first, n_first, k_second, n_second), fisher(k_second, n_second, k_first, n_first)
    )
    return _with_zero(value, low, high, min(n_first, n_second), by_chance, error)


def _with_zero(value: float, low: float, high: float, n: int, by_chance: float, error: float) -> Difference:
    """Return the difference, whose interval contains 0 if chance explains it at that error on a side."""
    return Difference(value, *((low, high) if by_chance <= error else (min(low, 0.0), max(high, 0.0))), n)


def _newcombe(
    k_first: float, n_first: float, k_second: float, n_second: float, correlation: float, confidence: float
) -> tuple[float, float]:
    first, second = k_first / n_first, k_second / n_second
    low_1, high_1 = wilson(k_first, n_first, confidence) or (0.0, 1.0)
    low_2, high_2 = wilson(k_second, n_second, confidence) or (0.0, 1.0)
    down = _distance(second - low_2, high_1 - first, correlation)
    up = _distance(high_2 - second, first - low_1, correlation)
    value = second - first
    return max(value - down, -1.0), min(value + up, 1.0)


def _distance(one: float, other: float, correlation: float) -> float:
    return math.sqrt(max(one * one - 2 * correlation * one * other + other * other, 0.0))


def percent(share: float, *, decimals: int | None = None) -> str:
    """Format a share of 1 as a percentage with three significant digits, or with ``decimals`` decimals.

    Adds digits where rounding would print 0 % or 100 % for another share: 999 of 1000 without decimals is
    99.9 %.
    """
    kind, digits = ("g", 3) if decimals is None else ("f", decimals)
    text = f"{100 * share:.{digits}{kind}}"
    while float(text) in (0, 100) and not math.isclose(100 * share, float(text), abs_tol=1e-9):
        digits += 1
        text = f"{100 * share:.{digits}{kind}}"
    return f"{text} %"
