"""Intervals of means and of ratios of sums, by the studentised bootstrap with a fixed seed. Pure."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import cached_property

MIN_UNITS = 20
"""Below it the interval of a mean is unknown: skewed values are too rarely seen whole."""
MIN_SEEN = 5
"""Below it the mean of a value that is mostly 0 has no interval: the other values are too rarely seen."""
_RESAMPLES = 999
_MIN_RESAMPLES = 399
_MAX_DRAWS = 2_000_000
_SEED = 1
_CALIBRATION = 0.75
"""Part of the error at which the ends are taken: skewed values miss the upper end more often than it says."""
_ROUNDING = 1e-11  # part of a sum of squares that rounding may leave


class RatioOfSums:
    """The sum of ``above`` by the sum of ``below`` over independent units; with all ones below it is a mean.

    B. Efron and R. J. Tibshirani, "An Introduction to the Bootstrap" (1993), section 12.5, with the standard
    error of a ratio (W. G. Cochran, "Sampling Techniques", 3rd edition (1977), section 6.4). The level is
    calibrated by simulation (docs/verdicts.md), as in W.-Y. Loh, "Calibrating Confidence Coefficients",
    Journal of the American Statistical Association 82 (1987), 155-162. The seed is fixed, so the same values
    have the same interval.
    """

    def __init__(self, above: Sequence[float], below: Sequence[float]) -> None:
        self.above, self.below = list(above), list(below)

    @cached_property
    def value(self) -> float:
        """The estimate."""
        return math.fsum(self.above) / math.fsum(self.below)

    def interval(self, error: float) -> tuple[float, float]:
        """Return the interval with this error on each side; unbounded with fewer than 20 units."""
        if len(self.above) < MIN_UNITS:
            return -math.inf, math.inf
        _, spread = _estimate(self.above, self.below)
        if not spread:
            return self.value, self.value
        low, high = _outer(self._statistics, error * _CALIBRATION)
        return self.value - high * spread, self.value - low * spread

    @cached_property
    def _statistics(self) -> list[float]:
        """The sorted studentised differences of the resamples."""
        n, units = len(self.above), range(len(self.above))
        draws = random.Random(_SEED)
        count = min(_RESAMPLES, max(_MIN_RESAMPLES, _MAX_DRAWS // n))
        sums = _Sums(self.above, self.below, self.value)
        return sorted(sums.studentised(draws.choices(units, k=n)) for _ in range(count))


class _Sums:
    """Sums over resampled units, from their residuals: what a ratio and its standard error need."""

    def __init__(self, above: Sequence[float], below: Sequence[float], ratio: float) -> None:
        residuals = [a - ratio * b for a, b in zip(above, below, strict=True)]
        self._residuals = residuals
        self._squares = [r * r for r in residuals]
        self._below = below
        self._products = [r * b for r, b in zip(residuals, below, strict=True)]
        self._below_squares = [b * b for b in below]
        self._is_mean = all(b == 1 for b in below)

    def studentised(self, units: Sequence[int]) -> float:
        """Return the difference of these units' ratio from the ratio of all, by its standard error."""
        n = len(units)
        residual, squares = _sum_of(self._residuals, units), _sum_of(self._squares, units)
        if self._is_mean:
            total = below_squares = float(n)
            product = residual
        else:
            total, product = _sum_of(self._below, units), _sum_of(self._products, units)
            below_squares = _sum_of(self._below_squares, units)
        difference = residual / total
        around = squares - 2 * difference * product + difference * difference * below_squares
        if around > _ROUNDING * squares:
            return difference * total / math.sqrt(around * n / (n - 1))
        is_zero = abs(residual) <= math.sqrt(_ROUNDING * squares * n)
        return 0.0 if is_zero else math.copysign(math.inf, difference)


def _sum_of(values: Sequence[float], units: Sequence[int]) -> float:
    return sum(map(values.__getitem__, units))


def _estimate(above: Sequence[float], below: Sequence[float]) -> tuple[float, float]:
    """Return the ratio and its standard error."""
    n, total = len(above), math.fsum(below)
    ratio = math.fsum(above) / total
    squares = math.fsum((a - ratio * b) ** 2 for a, b in zip(above, below, strict=True))
    spread = math.sqrt(squares * n / (n - 1)) / total
    return ratio, spread if spread > 1e-12 * abs(ratio) else 0.0


def _outer(ordered: Sequence[float], error: float) -> tuple[float, float]:
    """Return the quantiles with this error on each side; infinite if so few values do not show them."""
    rank = math.floor(error * (len(ordered) + 1) + 1e-9)
    return (ordered[rank - 1], ordered[-rank]) if rank else (-math.inf, math.inf)
