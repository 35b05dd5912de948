"""Intervals and percentiles. No data gives None, never 0 or 1."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import NormalDist

from wirefault.stats.exact import clopper_pearson, exact_high, exact_low, fisher, worse_by_chance

_BISECTIONS = 50


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
class Share:
    """``k`` of ``n``; without any there is no rate."""

    k: int
    n: int

    @classmethod
    def of(cls, outcomes: Iterable[bool | None]) -> Share:
        """Of the outcomes that are known."""
        known = [outcome for outcome in outcomes if outcome is not None]
        return cls(sum(known), len(known))

    @property
    def rate(self) -> float | None:
        return self.k / self.n if self.n else None

    def interval(self, confidence: float = 0.95) -> tuple[float, float] | None:
        """Its exact interval (Clopper-Pearson)."""
        return clopper_pearson(self.k, self.n, confidence)


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

    The interval of ``paired_interval`` excludes 0 only if the exact McNemar test does: two pairs exclude
    nothing.
    """
    n = both + only_first + only_second + neither
    if not n:
        return None
    low, high = paired_interval(only_first, only_second, n, confidence)
    value, error = (only_second - only_first) / n, (1 - confidence) / 2
    return _with_zero(value, low, high, n, _chance(only_first, only_second), error)


def _chance(only_first: float, only_second: float) -> float:
    return min(worse_by_chance(only_first, only_second), worse_by_chance(only_second, only_first))


def paired_interval(
    only_first: float, only_second: float, n: float, confidence: float = 0.9
) -> tuple[float, float]:
    """Return the interval of the second share minus the first from ``n`` paired trials.

    The score interval by T. Tango, "Equivalence test and confidence interval for the difference in
    proportions for the paired-sample design", Statistics in Medicine 17 (1998), 891-908, with a continuity
    correction of half a pair. Where only one side ever won it does not trust the score: the end towards that
    side is exact (Clopper-Pearson), the other at most the exact one. Enumerated, an end errs in at most 1.15
    times its share. Counts may be effective ones.
    """
    error = (1 - confidence) / 2
    high = _highest_difference(only_second, only_first, n, error)
    return -_highest_difference(only_first, only_second, n, error), high


def _highest_difference(gains: float, losses: float, n: float, error: float) -> float:
    """Return the highest share of gains minus losses that the pairs do not exclude."""
    if not losses:
        return exact_high(gains, n, error)
    z = NormalDist().inv_cdf(1 - error)

    def is_possible(difference: float) -> bool:
        return n * difference - (gains - losses) - 0.5 <= z * _spread(gains, losses, n, difference)

    high = _last(is_possible, (gains - losses) / n, 1.0)
    return high if gains else max(high, -exact_low(losses, n, error))


def _spread(gains: float, losses: float, n: float, difference: float) -> float:
    """Return the standard deviation of gains minus losses at this difference, at its likeliest rates."""
    linear = (2 * n - gains + losses) * difference - gains - losses
    root = math.sqrt(max(linear * linear + 8 * n * losses * difference * (1 - difference), 0.0))
    return math.sqrt(max(n * (2 * (root - linear) / (4 * n) + difference * (1 - difference)), 0.0))


def unpaired_difference(
    k_first: int, n_first: int, k_second: int, n_second: int, confidence: float = 0.9
) -> Difference | None:
    """Return the difference of two groups' success rates; None if a group is empty.

    The score interval by O. S. Miettinen and M. Nurminen, "Comparative analysis of two rates", Statistics in
    Medicine 4 (1985), 213-226, with a continuity correction of half a success in each group. It excludes 0
    only if Fisher's exact test does.
    """
    if not n_first or not n_second:
        return None
    value, error = k_second / n_second - k_first / n_first, (1 - confidence) / 2
    high = _highest_rise(k_first, n_first, k_second, n_second, error)
    low = -_highest_rise(k_second, n_second, k_first, n_first, error)
    by_chance = min(
        fisher(k_first, n_first, k_second, n_second), fisher(k_second, n_second, k_first, n_first)
    )
    return _with_zero(value, low, high, min(n_first, n_second), by_chance, error)


def _with_zero(value: float, low: float, high: float, n: int, by_chance: float, error: float) -> Difference:
    """Return the difference, whose interval contains 0 if chance explains it at that error on a side."""
    return Difference(value, *((low, high) if by_chance <= error else (min(low, 0.0), max(high, 0.0))), n)


def _highest_rise(k_first: int, n_first: int, k_second: int, n_second: int, error: float) -> float:
    """Return the highest rise from the first rate to the second that the counts do not exclude."""
    z = NormalDist().inv_cdf(1 - error)
    value, correction = k_second / n_second - k_first / n_first, (1 / n_first + 1 / n_second) / 2

    def is_possible(rise: float) -> bool:
        first = _likeliest(k_first, n_first, k_second, n_second, rise)
        second = min(max(first + rise, 0.0), 1.0)
        spread = math.sqrt(first * (1 - first) / n_first + second * (1 - second) / n_second)
        return rise - value - correction <= z * spread

    return _last(is_possible, value, 1.0)


def _likeliest(k_first: int, n_first: int, k_second: int, n_second: int, rise: float) -> float:
    """Return the likeliest first rate if the second is higher by ``rise``: the root of a cubic equation."""
    n, k = n_first + n_second, k_first + k_second
    square = ((n_second + 2 * n_first) * rise - n - k) / (3 * n)
    linear = (((n_first * rise) - n - 2 * k_first) * rise + k) / (3 * n)
    q = square**3 - 1.5 * linear * square + k_first * rise * (1 - rise) / (2 * n)
    p = math.copysign(math.sqrt(max(square * square - linear, 0.0)), q)
    angle = (math.pi + math.acos(min(max(q / p**3, -1.0), 1.0) if p else 0.0)) / 3
    return min(max(2 * p * math.cos(angle) - square, 0.0), 1.0)


def _last(fits: Callable[[float], bool], low: float, high: float) -> float:
    """Return the last value that fits, between one that does and one that may not."""
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return high


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
