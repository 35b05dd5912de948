"""Times until an event that some observations did not live to see: Kaplan-Meier. Pure.

A failure without recovery is censored: its time is known to be longer than what was observed. Leaving it out
would reward giving up. E. L. Kaplan and P. Meier, "Nonparametric Estimation from Incomplete Observations",
Journal of the American Statistical Association 53 (1958), 457-481.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import NormalDist

from wirefault.stats.exact import ruled_out_above


@dataclass(frozen=True)
class Duration:
    """How long something was observed."""

    seconds: float
    ended: bool
    """Whether the event came then; else the time is censored."""
    group: str = ""
    """Durations of one group may be alike; empty: independent."""


@dataclass(frozen=True)
class Step:
    """The estimate from one event time until the next."""

    seconds: float
    at_risk: int
    events: int
    survival: float
    """Share whose time is longer."""
    greenwood: float
    """Variance of ``survival``, divided by its square; infinite where it is 0."""
    units: int = 0
    """Independent durations at risk: groups, where there are some."""


def kaplan_meier(durations: Iterable[Duration]) -> list[Step]:
    """Return the estimate at each time with an event, in order; empty without an event.

    Without groups the variance is Greenwood's. With groups it is robust: Z. Ying and L. J. Wei, "The
    Kaplan-Meier Estimate for Dependent Failure Time Observations", Journal of Multivariate Analysis 50
    (1994), 17-29.
    """
    ordered = sorted(durations, key=lambda each: each.seconds)
    scores = _Scores(ordered) if any(each.group for each in ordered) else None
    steps: list[Step] = []
    survival, greenwood, at_risk = 1.0, 0.0, len(ordered)
    for seconds, alike in groupby(ordered, key=lambda each: each.seconds):
        same = list(alike)
        events = sum(each.ended for each in same)
        if events:
            survival *= 1 - events / at_risk
            units = scores.units if scores else at_risk
            left = at_risk - events
            if not left:
                greenwood = math.inf
            elif scores:
                greenwood = scores.variance(same, at_risk, events)
            else:
                greenwood += events / (at_risk * left)
            steps.append(Step(seconds, at_risk, events, survival, greenwood, units))
        if scores:
            scores.leave(same)
        at_risk -= len(same)
    return steps


class _Scores:
    """The influence of each group on the logarithm of the estimate; their squares sum to its variance.

    A group's score is ``bases - at risk * hazard``, so that the sum of squares changes only by the groups
    with a duration of this time.
    """

    def __init__(self, durations: Sequence[Duration]) -> None:
        self._at_risk = Counter(map(_group, durations))
        self._bases = dict.fromkeys(self._at_risk, 0.0)
        self._hazard = 0.0
        self._squares = self._products = 0.0
        self._sizes = math.fsum(size * size for size in self._at_risk.values())
        self.units = len(self._bases)
        """The groups at risk."""

    def variance(self, same: Sequence[Duration], at_risk: int, events: int) -> float:
        """Return the variance after the events among the durations of this time."""
        left = at_risk - events
        self._hazard += events / (at_risk * left)
        for group, ended in Counter(_group(each) for each in same if each.ended).items():
            self._set(group, self._bases[group] + ended / left, self._at_risk[group])
        hazard, groups = self._hazard, len(self._bases)
        squares = self._squares - 2 * hazard * self._products + hazard * hazard * self._sizes
        return max(squares, 0.0) * groups / (groups - 1) if groups > 1 else math.inf

    def leave(self, same: Iterable[Duration]) -> None:
        """Take these durations out of those at risk."""
        for group, size in Counter(map(_group, same)).items():
            rest = self._at_risk[group] - size
            self._set(group, self._bases[group] - size * self._hazard, rest)
            self.units -= not rest

    def _set(self, group: object, base: float, size: int) -> None:
        before, at_risk = self._bases[group], self._at_risk[group]
        self._squares += base * base - before * before
        self._products += base * size - before * at_risk
        self._sizes += size * size - at_risk * at_risk
        self._bases[group], self._at_risk[group] = base, size


def _group(duration: Duration) -> object:
    return duration.group or id(duration)


def mean_time(durations: Sequence[Duration]) -> float | None:
    """Return the sum of the observed times by their number (IEC 60050-192, 192-07-23); None without any.

    It is a lower bound if any is censored.
    """
    return math.fsum(each.seconds / len(durations) for each in durations) if durations else None


def time_percentile(steps: Sequence[Step], percent: float) -> float | None:
    """Return the least time within which that share ended; None if so many did not end."""
    return _first_below(((step.seconds, step.survival) for step in steps), 1 - percent / 100)


def time_interval(
    steps: Sequence[Step], percent: float, confidence: float = 0.9
) -> tuple[float | None, float | None]:
    """Return the interval of a percentile; an end is None where the data do not bound it.

    By inverting the log-log limits of the estimate (R. Brookmeyer and J. Crowley, "A Confidence Interval for
    the Median Survival Time", Biometrics 38 (1982), 29-41).
    """
    limits = [(step.seconds, *survival_limits(step, confidence)) for step in steps]
    share = 1 - percent / 100
    low = _first_below(((seconds, low) for seconds, low, _ in limits), share)
    return low, _first_below(((seconds, high) for seconds, _, high in limits), share)


def survival_limits(step: Step, confidence: float = 0.9) -> tuple[float, float]:
    """Return the log-log limits of the estimate at one step.

    An estimate of 0 has no variance. Its upper limit is the exact one for none left of those at risk: no
    larger share than of these survives.
    """
    if step.survival <= 0:
        return 0.0, ruled_out_above(step.units, (1 - confidence) / 2)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    log = math.log(step.survival)
    spread = math.exp(z * math.sqrt(step.greenwood) / -log)
    return math.exp(log * spread), math.exp(log / spread)


def _first_below(points: Iterable[tuple[float, float]], share: float) -> float | None:
    return next((seconds for seconds, survival in points if survival <= share + 1e-12), None)
