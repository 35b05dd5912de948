"""Exact intervals and tests for counts, by the incomplete beta function. Pure Python.

``scipy.special.betaincinv`` gives the same figures; scipy and numpy take 190 MB and a quarter of a second to
import, so the tests use them as a second computation and the package does not need them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

_MAX_TERMS = 10_000
_TINY = 1e-300
_MAX_STEPS = 100
_MAX_EXPONENT = 700.0


def log_beta_cdf(x: float, a: float, b: float) -> float:
    """Return the logarithm of the regularised incomplete beta function; -inf for 0.

    The continued fraction is NIST's Digital Library of Mathematical Functions, 8.17.22, by Lentz's method.
    """
    if x <= 0:
        return -math.inf
    if x >= 1:
        return 0.0
    if x > (a + 1) / (a + b + 2):
        other = log_beta_cdf(1 - x, b, a)
        return math.log1p(-math.exp(other)) if other < 0 else -math.inf
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    return min(front - math.log(a) + math.log(_continued_fraction(x, a, b)), 0.0)


def _continued_fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, 1 / _away_from_zero(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, _MAX_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1 / _away_from_zero(1 + term * d)
            c = _away_from_zero(1 + term / c)
            value *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return value


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def beta_quantile(probability: float, a: float, b: float) -> float:
    """Return the value that a beta variable does not exceed with this probability (between 0 and 1).

    Newton's method on the logarithm, with bisection where a step would leave the bracket.
    """
    goal, low, high, x = math.log(probability), 0.0, 1.0, a / (a + b)
    whole = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    for _ in range(_MAX_STEPS):
        log = log_beta_cdf(x, a, b)
        low, high = (x, high) if log < goal else (low, x)
        density = math.exp(min(whole + (a - 1) * math.log(x) + (b - 1) * math.log1p(-x) - log, _MAX_EXPONENT))
        step = x - (log - goal) / density if density else low
        before, x = x, step if low < step < high else (low + high) / 2
        if abs(x - before) <= 1e-15 * x or not 0 < x < 1:
            break
    return x


def exact_low(k: float, n: float, error: float) -> float:
    """Return the lower Clopper-Pearson limit of a rate: ``k`` of ``n`` or more has this probability below it.

    C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case of the
    binomial", Biometrika 26 (1934), 404-413. ``k`` and ``n`` may be fractions, for effective sample sizes.
    Episodes with different rates make the interval of their mean only wider than it has to be (W. Hoeffding,
    "On the distribution of the number of successes in independent trials", Annals of Mathematical Statistics
    27 (1956), 713-721).
    """
    return 0.0 if k <= 0 else beta_quantile(error, k, n - k + 1)


def exact_high(k: float, n: float, error: float) -> float:
    """Return the upper Clopper-Pearson limit of a rate."""
    return 1 - exact_low(n - k, n, error)


def clopper_pearson(k: int, n: int, confidence: float = 0.9) -> tuple[float, float] | None:
    """Return the exact two-sided interval of a rate; None for n = 0.

    Raises ``ValueError`` unless 0 <= k <= n.
    """
    if not 0 <= k <= n:
        raise ValueError(f"{k} of {n} is not a share")
    if n == 0:
        return None
    error = (1 - confidence) / 2
    return exact_low(k, n, error), exact_high(k, n, error)


def clustered_rate(
    clusters: Sequence[tuple[int, int]], error: float, *, min_mixed: int = 0
) -> tuple[float, float]:
    """Return the interval of a rate over clusters, each with its successes and its size.

    Clopper-Pearson with the effective sample size, by E. L. Korn and B. I. Graubard, "Confidence intervals
    for proportions with small expected number of positive counts estimated from survey data", Survey
    Methodology 24 (1998), 193-201. Where no cluster differs from another, each counts once. Clusters of one
    are independent, and the interval is exact. Where fewer than ``min_mixed`` clusters have a failure, or a
    success, their likeness is not known, and each counts at most once.
    """
    m, n = len(clusters), sum(size for _, size in clusters)
    k = sum(successes for successes, _ in clusters)
    if n == m:
        size = float(n)
    elif m < 2:
        return 0.0, 1.0
    else:
        size = effective_size([(s - k / n * c, c) for s, c in clusters], k / n * (1 - k / n), error)
        failed, worked = sum(s < c for s, c in clusters), sum(s > 0 for s, _ in clusters)
        if min(failed, worked) < min_mixed:
            size = min(size, float(m))
    return exact_low(k / n * size, size, error), exact_high(k / n * size, size, error)


def effective_size(clusters: Sequence[tuple[float, int]], variance: float, error: float) -> float:
    """Return how many independent episodes tell as much as these clusters.

    Each has its residual sum and its size; ``variance`` is of one episode. At most all episodes, reduced for
    the estimate of the variance from so few clusters; the number of clusters if none differs.
    """
    m, n = len(clusters), sum(size for _, size in clusters)
    squares = sum(residual * residual for residual, _ in clusters) * m / (m - 1)
    if not squares or not variance:
        return float(m)
    reduced = (t_quantile(1 - error, n - 1) / t_quantile(1 - error, m - 1)) ** 2
    return min(variance * n * n / squares * reduced, float(n))


@lru_cache(maxsize=256)
def t_quantile(probability: float, degrees: int) -> float:
    """Return the quantile of Student's t, for a probability above one half."""
    x = beta_quantile(2 * (1 - probability), degrees / 2, 0.5)
    return math.sqrt(degrees * (1 - x) / x)


def ruled_out_above(n: float, error: float = 0.05) -> float:
    """Return the rate that none in ``n`` rules out: above it, none has at most the probability ``error``."""
    return 1.0 if n <= 0 else -math.expm1(math.log(error) / n)


def episodes_to_rule_out(rate: float, error: float = 0.05) -> int:
    """Return the smallest n of which none rules out this rate: 59 for 5 %."""
    n = max(math.floor(math.log(error) / math.log1p(-rate)) - 1, 1) if rate < 1 else 1
    while ruled_out_above(n, error) > rate:
        n += 1
    return n


def fisher(k_first: int, n_first: int, k_second: int, n_second: int) -> float:
    """Return the one-sided exact probability of so few successes in the second group, or fewer, by chance.

    R. A. Fisher, "Statistical Methods for Research Workers", 5th edition (1934), section 21.02.
    """
    k, n = k_first + k_second, n_first + n_second
    fewest, most = max(0, k - n_first), min(k, k_second)
    ways = [_log_ways(n_second, i) + _log_ways(n_first, k - i) for i in range(fewest, most + 1)]
    return min(math.fsum(math.exp(each - _log_ways(n, k)) for each in ways), 1.0)


def _log_ways(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def worse_by_chance(only_first: float, only_second: float) -> float:
    """Return the one-sided exact McNemar probability of so many losses, or more, if neither side is better.

    Q. McNemar, "Note on the sampling error of the difference between correlated proportions or percentages",
    Psychometrika 12 (1947), 153-157. ``only_first`` counts the pairs that succeeded only on the first side.
    """
    n = only_first + only_second
    if not only_first:
        return 1.0
    return math.exp(log_beta_cdf(0.5, only_first, n - only_first + 1))


def percentile_interval(
    values: Sequence[float], percent: float, error: float, size: float | None = None
) -> tuple[float, float]:
    """Return the interval of a percentile by order statistics, unbounded where n is too small.

    H. A. David and H. N. Nagaraja, "Order Statistics", 3rd edition (2003), section 7.1: the r-th smallest of
    n values is at most the percentile with the binomial probability of at least r values below it. The upper
    limit of p95 at 5 % needs 59 values. ``size`` is the effective number of values where they are clustered,
    by R. S. Woodruff, "Confidence intervals for medians and other position measures", Journal of the American
    Statistical Association 47 (1952), 635-646.
    """
    ordered, share = sorted(values), percent / 100
    n = len(ordered)
    size = float(n) if size is None else size
    # P(at least r of n below) >= 1 - error, which is the incomplete beta function at the share
    enough = math.log1p(-error) - 1e-12
    low = _largest(n, lambda r: log_beta_cdf(share, *_ranks(r, n, size)) >= enough)
    above = _largest(n, lambda r: log_beta_cdf(1 - share, *_ranks(r, n, size)) >= enough)
    return ordered[low - 1] if low else -math.inf, ordered[n - above] if above else math.inf


def _ranks(r: int, n: int, size: float) -> tuple[float, float]:
    rank = r * size / n
    return rank, size - rank + 1


def _largest(n: int, fits: Callable[[int], bool]) -> int:
    low, high = 0, n
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low
