"""The dose at which success falls to a rate: Bayesian logistic, adaptive. Pure.

Success at dose x is modelled as expit(logit(rate) - slope (x - limit)): ``limit`` is the dose with that
rate. The posterior is held on a grid: ``limit`` uniform over the doses and a quarter of their range beyond
each end, the slope uniform in its logarithm. The next dose is the one whose trial has the highest mutual
information with the limit (L. L. Kontsevich and C. W. Tyler, "Bayesian adaptive estimation of psychometric
slope and threshold", Vision Research 39 (1999), 2729-2737; marginal over the slope as in N. Prins, "The
psi-marginal adaptive method", Journal of Vision 13(7):3, 2013).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from operator import mul
from typing import NamedTuple

from wirefault.stats.exact import fisher

_LIMITS, _SLOPES = 56, 6
# of the grid beyond each end of the doses, in ranges
_BEYOND = 0.25
# slopes between these, per range of the doses
_MIN_SLOPE, _MAX_SLOPE = 2.0, 25.0
# trials at each of these doses before the others: at the ends, and at places between, evenly spaced. They
# show whether success falls at all, and whether it falls somewhere and rises again
_FIRST_TRIALS, _FIRST_DOSES = 2, 5
# trials at a dose that always failed below one that always succeeded: chance alone seldom makes so many
_DOUBT_TRIALS = 6
_TINY = 1e-6


class Tally(NamedTuple):
    """Successes and trials at a dose."""

    successes: int
    trials: int


@dataclass(frozen=True)
class LimitSearch:
    """Which doses may be tried, and when to stop."""

    doses: Sequence[float]
    """Ascending, at least two."""
    rate: float = 0.5
    """Success rate at the limit, above 0 and below 1."""
    confidence: float = 0.95
    """Mass of the credible interval."""
    cap: int = 40
    """Trials at most."""
    within: float = 0.0
    """Stop once the interval is at most this wide; 0: never."""

    def __post_init__(self) -> None:
        if len(self.doses) < 2 or any(a >= b for a, b in zip(self.doses, self.doses[1:], strict=False)):
            raise ValueError("needs at least two doses, in ascending order")
        if not all(map(math.isfinite, self.doses)):
            raise ValueError("each dose must be a number")
        if not (0 < self.rate < 1 and 0 < self.confidence < 1):
            raise ValueError("rate and confidence must be between 0 and 1")

    @property
    def width(self) -> float:
        return self.doses[-1] - self.doses[0]

    @cached_property
    def limits(self) -> Sequence[float]:
        """Middles of the grid's cells."""
        low, cell = self.doses[0] - _BEYOND * self.width, self.cell
        return [low + (place + 0.5) * cell for place in range(_LIMITS)]

    @property
    def cell(self) -> float:
        return self.width * (1 + 2 * _BEYOND) / _LIMITS

    @cached_property
    def _success(self) -> Mapping[float, Sequence[float]]:
        """Success at each dose for each point of the grid: the slopes of the first limit, then the others."""
        step = math.log(_MAX_SLOPE / _MIN_SLOPE) / (_SLOPES - 1)
        slopes = [_MIN_SLOPE * math.exp(step * place) / self.width for place in range(_SLOPES)]
        at_limit = math.log(self.rate / (1 - self.rate))
        return {
            dose: [_expit(at_limit - slope * (dose - limit)) for limit in self.limits for slope in slopes]
            for dose in self.doses
        }

    @cached_property
    def _logs(self) -> Mapping[float, tuple[Sequence[float], Sequence[float]]]:
        """Logarithms of success and of failure at each dose, as in ``_success``."""
        return {
            dose: (list(map(math.log, success)), [math.log1p(-p) for p in success])
            for dose, success in self._success.items()
        }

    def posterior(self, tallies: Mapping[float, Tally]) -> list[float]:
        """Return the mass of each point of the grid."""
        logs = [0.0] * (_LIMITS * _SLOPES)
        for dose, tally in tallies.items():
            successes, failures = tally.successes, tally.trials - tally.successes
            logs = [
                log + successes * of_success + failures * of_failure
                for log, of_success, of_failure in zip(logs, *self._logs[dose], strict=True)
            ]
        most = max(logs)
        masses = [math.exp(log - most) for log in logs]
        total = sum(masses)
        return [mass / total for mass in masses]

    def next_dose(self, tallies: Mapping[float, Tally]) -> float | None:
        """Return the dose of the next trial; None at the end."""
        trials = sum(tally.trials for tally in tallies.values())
        if trials >= self.cap:
            return None
        for dose in self._first_doses:
            if tallies.get(dose, Tally(0, 0)).trials < _FIRST_TRIALS:
                return dose
        if (doubted := self._doubted(tallies)) is not None:
            return doubted
        posterior = self.posterior(tallies)
        if self.within and self._width(posterior) <= self.within:
            return None
        marginal = self._marginal(posterior)
        return max(self.doses, key=lambda dose: self._information(posterior, marginal, self._success[dose]))

    def _doubted(self, tallies: Mapping[float, Tally]) -> float | None:
        """The first dose whose trials all failed though those at a higher one all succeeded."""
        passed = [dose for dose, tally in tallies.items() if 0 < tally.trials == tally.successes]
        for dose, tally in sorted(tallies.items()):
            if 0 < tally.trials < _DOUBT_TRIALS and not tally.successes and dose < max(passed, default=dose):
                return dose
        return None

    @cached_property
    def _first_doses(self) -> Sequence[float]:
        """The ends, then doses between; as many as half of the cap allows."""
        count = max(2, min(len(self.doses), _FIRST_DOSES, self.cap // (2 * _FIRST_TRIALS)))
        places = [round(place * (len(self.doses) - 1) / (count - 1)) for place in range(count)]
        return [self.doses[at] for at in (places[0], places[-1], *places[1:-1])]

    def _information(
        self, posterior: Sequence[float], marginal: Sequence[float], success: Sequence[float]
    ) -> float:
        """Mutual information of a trial's outcome and the limit, in nats."""
        joint = self._marginal(list(map(mul, posterior, success)))
        inner = (mass * _entropy(p / mass) for mass, p in zip(marginal, joint, strict=True) if mass > _TINY)
        return _entropy(sum(joint)) - sum(inner)

    def _marginal(self, posterior: Sequence[float]) -> list[float]:
        return [sum(posterior[at : at + _SLOPES]) for at in range(0, len(posterior), _SLOPES)]

    def _width(self, posterior: Sequence[float]) -> float:
        low, high = self._interval(self._marginal(posterior))
        return high - low

    def _interval(self, marginal: Sequence[float]) -> tuple[float, float]:
        tail = (1 - self.confidence) / 2
        return self._quantile(marginal, tail), self._quantile(marginal, 1 - tail)

    def _quantile(self, marginal: Sequence[float], mass: float) -> float:
        """The quantile, with the mass of a cell spread evenly in it."""
        before = 0.0
        for limit, own, until in zip(self.limits, marginal, accumulate(marginal), strict=True):
            if until >= mass and own > 0:
                return limit + self.cell * ((mass - before) / own - 0.5)
            before = until
        return self.limits[-1] + self.cell / 2

    def result(self, tallies: Mapping[float, Tally]) -> Limit:
        """Return what the trials until now show."""
        marginal = self._marginal(self.posterior(tallies))
        # the grid reaches beyond the doses; a dose below 0 means failing without faults, too
        floor = 0.0 if self.doses[0] >= 0 else self.doses[0]
        low, high = (max(end, floor) for end in self._interval(marginal))
        below = sum(p for limit, p in zip(self.limits, marginal, strict=True) if limit < self.doses[0])
        above = sum(p for limit, p in zip(self.limits, marginal, strict=True) if limit > self.doses[-1])
        return Limit(
            self.rate,
            self.confidence,
            max(self._quantile(marginal, 0.5), floor),
            low,
            high,
            self.doses[0],
            self.doses[-1],
            below,
            above,
            dict(sorted(tallies.items())),
            rises_in(tallies),
        )


def _expit(x: float) -> float:
    """The logistic function, away from 0 and 1, so that no single outcome excludes a point of the grid."""
    value = 1 / (1 + math.exp(-x)) if x > -700 else 0.0
    return min(max(value, 1e-3), 1 - 1e-3)


def _entropy(p: float) -> float:
    return 0.0 if p <= 0 or p >= 1 else -p * math.log(p) - (1 - p) * math.log1p(-p)


@dataclass(frozen=True)
class Rise:
    """Success is higher at higher doses: ``low`` and ``high`` with their tallies, and the p-value."""

    low: Sequence[float]
    before: Tally
    high: Sequence[float]
    after: Tally
    p: float


@dataclass(frozen=True)
class Limit:
    """The result of a search."""

    rate: float
    confidence: float
    median: float
    low: float
    high: float
    first_dose: float
    last_dose: float
    below: float
    """Posterior probability that the limit is below the doses."""
    above: float
    """Posterior probability that it is above them."""
    tallies: Mapping[float, Tally] = field(default_factory=dict)
    rise: Rise | None = None
    """Why success does not fall with the dose; None if nothing speaks against it."""

    @property
    def trials(self) -> int:
        return sum(tally.trials for tally in self.tallies.values())

    @property
    def state(self) -> str:
        """``bounded``, ``above`` or ``below`` all doses, ``open`` (too wide) or ``not monotone``."""
        if self.rise is not None:
            return "not monotone"
        tail = (1 - self.confidence) / 2
        if self.above >= 1 - 2 * tail:
            return "above"
        if self.below >= 1 - 2 * tail:
            return "below"
        return "bounded" if self.low >= self.first_dose and self.high <= self.last_dose else "open"


_MONOTONE_ERROR = 0.01


def rises_in(tallies: Mapping[float, Tally]) -> Rise | None:
    """Return where success rises with the dose more than chance explains; None without such a place.

    The doses are pooled as by isotonic regression for a falling rate (the pool-adjacent-violators algorithm).
    In each pool each split is tested by Fisher's exact test, one-sided; the tests share an error of 1 %
    (Bonferroni).
    """
    pools: list[list[tuple[float, Tally]]] = []
    for dose, tally in sorted(tallies.items()):
        if tally.trials:
            pools.append([(dose, tally)])
        while len(pools) > 1 and _rate(pools[-2]) <= _rate(pools[-1]):
            pools[-2:] = [pools[-2] + pools[-1]]
    splits = [(pool[:at], pool[at:]) for pool in pools for at in range(1, len(pool))]
    rises = [_rise(before, after) for before, after in splits]
    worst = min(rises, key=lambda rise: rise.p, default=None)
    return worst if worst is not None and worst.p * len(splits) <= _MONOTONE_ERROR else None


def _sum(pool: Sequence[tuple[float, Tally]]) -> Tally:
    return Tally(sum(t.successes for _, t in pool), sum(t.trials for _, t in pool))


def _rate(pool: Sequence[tuple[float, Tally]]) -> float:
    total = _sum(pool)
    return total.successes / total.trials


def _rise(before: Sequence[tuple[float, Tally]], after: Sequence[tuple[float, Tally]]) -> Rise:
    first, second = _sum(before), _sum(after)
    p = fisher(*second, *first)  # so few successes at the lower doses
    return Rise([dose for dose, _ in before], first, [dose for dose, _ in after], second, p)
