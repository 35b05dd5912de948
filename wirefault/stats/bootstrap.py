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
        units = list(zip(self.above, self.below, strict=True))
        draws = random.Random(_SEED)
        count = min(_RESAMPLES, max(_MIN_RESAMPLES, _MAX_DRAWS // len(units)))
        return sorted(self._studentised(draws.choices(units, k=len(units))) for _ in range(count))

    def _studentised(self, units: Sequence[tuple[float, float]]) -> float:
        value, spread = _estimate([above for above, _ in units], [below for _, below in units])
        difference = value - self.value
        if spread:
            return difference / spread
        return math.copysign(math.inf, difference) if difference else 0.0


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
