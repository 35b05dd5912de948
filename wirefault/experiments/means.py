"""Means and percentiles of episodes, with intervals as in ``estimates``. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from wirefault.experiments.estimates import Population, cluster_key, needed_for_rate
from wirefault.experiments.expression import Bounds
from wirefault.stats.bootstrap import MIN_SEEN, MIN_UNITS, RatioOfSums
from wirefault.stats.exact import (
    percentile_interval,
)
from wirefault.stats.rates import percentile
from wirefault.stats.survival import Duration, Step, kaplan_meier, time_interval, time_percentile


@dataclass(frozen=True)
class Mean:
    """A mean per episode, or a ratio of sums: (above, below) by episode.

    ``missing`` episodes could have had any value from ``lowest``; with them, or if it is ``censored``, it has
    no upper end. A ``rare`` value is 0 in most episodes: it has no ends until five of them had another one.
    """

    sums: Mapping[str, tuple[float, float]]
    population: Population = "these"
    missing: int = 0
    censored: bool = False
    lowest: float = 0.0
    rare: bool = False

    @cached_property
    def _ratio(self) -> RatioOfSums:
        units: defaultdict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
        for key, (above, below) in self.sums.items():
            if below:
                name = cluster_key(key, self.population)
                units[name] = units[name][0] + above, units[name][1] + below
        return RatioOfSums([above for above, _ in units.values()], [below for _, below in units.values()])

    @property
    def n(self) -> int:
        """The independent units: episodes, or prompts for other episodes like these."""
        return len(self._ratio.above)

    @property
    def value(self) -> float | None:
        return None if self._has_no_top or not self.n else self._ratio.value

    @property
    def _has_no_top(self) -> bool:
        return self.censored or self.missing > 0

    @property
    def _is_seen_too_rarely(self) -> bool:
        return self.rare and sum(map(bool, self._ratio.above)) < MIN_SEEN

    def interval(self, error: float) -> Bounds:
        if not self.n or self._is_seen_too_rarely:
            return Bounds(self.lowest, math.inf)
        low, high = self._ratio.interval(error)
        low *= len(self.sums) / (len(self.sums) + self.missing) if math.isfinite(low) else 1
        return Bounds(max(low, self.lowest), math.inf if self._has_no_top else high)

    def needed(self, sign: str, threshold: float, error: float) -> int | None:
        if self.value is None:
            return None
        if self.n < MIN_UNITS:
            return MIN_UNITS
        if self._is_seen_too_rarely:
            seen = sum(map(bool, self._ratio.above))
            return math.ceil(self.n * MIN_SEEN / seen) if seen else None
        return _needed_for_mean(self._ratio, threshold, error)


def _needed_for_mean(ratio: RatioOfSums, threshold: float, error: float) -> int | None:
    """The n at which an interval that shrinks with its root would exclude the threshold."""
    low, high = ratio.interval(error)
    distance = abs(ratio.value - threshold)
    reach = high - ratio.value if ratio.value < threshold else ratio.value - low
    if not distance or not math.isfinite(reach):
        return None
    return math.ceil(len(ratio.above) * (reach / distance) ** 2)


@dataclass(frozen=True)
class MeanDifference:
    """The mean rise of a figure per episode from one arm to another, paired by prompt and repetition.

    Without ends if an episode is missing in either arm.
    """

    before: Mean
    after: Mean

    @cached_property
    def differences(self) -> Mapping[str, float]:
        """By episode that both have."""
        before, after = self.before.sums, self.after.sums
        return {key: above - before[key][0] for key, (above, _) in after.items() if key in before}

    @cached_property
    def _mean(self) -> Mean:
        sums = {key: (difference, 1.0) for key, difference in self.differences.items()}
        return Mean(sums, self.after.population, lowest=-math.inf, rare=True)

    @property
    def n(self) -> int:
        return self._mean.n

    @property
    def value(self) -> float | None:
        return None if self.before.missing or self.after.missing else self._mean.value

    @property
    def bounds(self) -> Bounds | None:
        """The rise in these episodes; None without pairs."""
        if not self.differences:
            return None
        return Bounds(-math.inf, math.inf) if self.value is None else Bounds(self.value, self.value)

    def interval(self, error: float) -> Bounds:
        return Bounds(-math.inf, math.inf) if self.value is None else self._mean.interval(error)

    def needed(self, sign: str, threshold: float, error: float) -> int | None:
        return None if self.value is None else self._mean.needed(sign, threshold, error)


@dataclass(frozen=True)
class TimePercentile:
    """A percentile of times until recovery, by episode; a time without recovery is censored (Kaplan-Meier).

    An episode is a cluster, or a prompt for other episodes like these; below 20 of them it has no interval.
    """

    times: Mapping[str, Sequence[Duration]]
    percent: float
    population: Population = "these"

    @cached_property
    def _steps(self) -> list[Step]:
        return kaplan_meier(
            replace(time, group=cluster_key(key, self.population))
            for key, times in self.times.items()
            for time in times
        )

    @property
    def n(self) -> int:
        """The failures."""
        return sum(map(len, self.times.values()))

    @property
    def value(self) -> float | None:
        return time_percentile(self._steps, self.percent)

    @property
    def bounds(self) -> Bounds:
        """The percentile; if so many did not recover, at least that of the observed times."""
        if self.value is not None:
            return Bounds(self.value, self.value)
        seconds = (time.seconds for times in self.times.values() for time in times)
        return Bounds(percentile(seconds, self.percent) or 0.0, math.inf)

    def interval(self, error: float) -> Bounds:
        names = {cluster_key(key, self.population) for key, t in self.times.items() if t}
        if len(names) < MIN_UNITS:
            return Bounds(0, math.inf)
        low, high = time_interval(self._steps, self.percent, 1 - 2 * error)
        return Bounds(low or 0.0, math.inf if high is None else high)

    def needed(self, sign: str, threshold: float, error: float) -> int | None:
        within = [1 - step.survival for step in self._steps if step.seconds <= threshold]
        share = within[-1] if within else 0.0
        return needed_for_rate(share, self.percent / 100, error, max(self.n, MIN_UNITS))


@dataclass(frozen=True)
class Percentile:
    """A percentile of values by episode. ``unknown``: how many further values could be anything."""

    values: Mapping[str, Sequence[float]]
    percent: float
    unknown: int = 0
    population: Population = "these"

    @cached_property
    def _all(self) -> list[float]:
        return [value for values in self.values.values() for value in values]

    @property
    def n(self) -> int:
        return len(self._all) + self.unknown

    @property
    def value(self) -> float | None:
        return None  # its measure has the text

    @property
    def _size(self) -> float:
        """The number of clusters: attempts of an episode, and repetitions of a prompt, are alike."""
        names = {cluster_key(key, self.population) for key, v in self.values.items() if v}
        return float(len(names) + self.unknown)

    def interval(self, error: float) -> Bounds:
        ends = [
            percentile_interval([*self._all, *[limit] * self.unknown], self.percent, error, self._size)
            for limit in (0.0, math.inf)
        ]
        return Bounds(max(ends[0][0], 0.0), ends[1][1])

    def needed(self, sign: str, threshold: float, error: float) -> int | None:
        if self.unknown or not self._all:
            return None
        below = sum(value <= threshold for value in self._all) / len(self._all)
        return needed_for_rate(below, self.percent / 100, error, self.n)
