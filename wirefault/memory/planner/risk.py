"""The risk of a cell: the probability of harm from the episodes so far, and the four-part score. Pure.

The probability is the mean of a beta distribution whose prior is pooled: all faults, then this fault, then
this question about this call, then this dose. Each level counts as some episodes of the next, so that the
estimate for a cell without episodes is the mean of similar ones (partial pooling, as in A. Gelman and others,
"Bayesian Data Analysis", chapter 5, with fixed strengths).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from wirefault.experiments.search.chain import Risk
from wirefault.memory.planner.cells import Cell
from wirefault.stats.exact import beta_quantile

CONFIDENCE = 0.9
# of each level as a prior of the next: ladders, and episodes
_OF_FAULT, _OF_LADDER, _OF_CELL = 3.0, 3.0, 3.0
# before any episode: fewer faults do harm than not, and two faults outweigh this
_PRIOR_HARM, _PRIOR_FAULTS = 0.3, 2.0
UNKNOWN_SUCCESS, UNKNOWN_IMPACT, UNKNOWN_RISK = 0.5, 1.0, 0.5
"""Of a component without episodes."""
SCORE_WEIGHTS: Mapping[str, float] = {"base": 0.3, "impact": 0.3, "parameter": 0.2, "duration": 0.2}
_LONG_S = 300.0


@dataclass(frozen=True)
class Tally:
    """The episodes of a cell: delivered ones, those with a sign of a weakness, those that ended in harm."""

    delivered: int = 0
    bad: int = 0
    harm: int = 0
    absent: int = 0
    """Episodes in which the fault was not delivered."""

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.delivered + other.delivered,
            self.bad + other.bad,
            self.harm + other.harm,
            self.absent + other.absent,
        )

    @property
    def width(self) -> float:
        """Of the interval of the share of bad episodes, by Jeffreys' prior."""
        low, high = _interval(self.bad + 0.5, self.delivered - self.bad + 0.5)
        return high - low


@lru_cache(maxsize=10_000)
def _interval(a: float, b: float) -> tuple[float, float]:
    tail = (1 - CONFIDENCE) / 2
    return beta_quantile(tail, a, b), beta_quantile(1 - tail, a, b)


@dataclass
class RiskModel:
    """The tallies of all cells, and the mean rates of harm above them."""

    by_cell: Mapping[str, Tally]
    by_ladder: dict[str, Tally] = field(default_factory=dict)
    ladders: dict[str, set[str]] = field(default_factory=dict)
    """By fault."""

    @classmethod
    def of(cls, cells: Iterable[Cell], tallies: Mapping[str, Tally]) -> RiskModel:
        """From the tallies of single cells, and of pairs."""
        model = cls(tallies)
        for cell in cells:
            if (tally := tallies.get(cell.id)) is not None and tally.delivered:
                model.by_ladder[cell.ladder] = model.by_ladder.get(cell.ladder, Tally()) + tally
                model.ladders.setdefault(cell.fault, set()).add(cell.ladder)
        return model

    def _rate(self, fault: str, besides: str = "") -> tuple[float, int]:
        """The mean rate of harm of the fault's ladders, and their number; without one ladder."""
        ladders = sorted(self.ladders.get(fault, set()) - {besides})
        tallies = [self.by_ladder[ladder] for ladder in ladders]
        mean = sum(each.harm / each.delivered for each in tallies) / max(len(tallies), 1)
        return mean, len(tallies)

    def _overall(self, besides: str) -> float:
        """Over the other faults, each counted once, since one may be tried far more often than others."""
        rates = [self._rate(fault)[0] for fault in self.ladders if fault != besides]
        return (sum(rates) + _PRIOR_FAULTS * _PRIOR_HARM) / (len(rates) + _PRIOR_FAULTS)

    def risk(self, cell: Cell, parts: Sequence[Cell] = ()) -> Risk:
        """The probability that an episode of the cell ends in harm. ``parts``: both cells of a pair."""
        own = self.by_cell.get(cell.id, Tally())
        if parts and not own.delivered:
            return _either([self.risk(each) for each in parts])
        ladder = own if parts else self.by_ladder.get(cell.ladder, own)
        # each level without the episodes of the next, which would count twice
        alike, tried = self._rate(cell.fault, besides=cell.ladder)
        mean = (alike * tried + _OF_FAULT * self._overall(cell.fault)) / (tried + _OF_FAULT)
        harm, delivered = ladder.harm - own.harm, ladder.delivered - own.delivered
        mean = (harm + _OF_LADDER * mean) / (delivered + _OF_LADDER)
        a = own.harm + _OF_CELL * mean
        b = own.delivered - own.harm + _OF_CELL * (1 - mean)
        return Risk(a / (a + b), self._evidence(cell, own, ladder))

    def _evidence(self, cell: Cell, own: Tally, ladder: Tally) -> str:
        alike = sum((self.by_ladder[name] for name in self.ladders.get(cell.fault, ())), Tally())
        every = sum(self.by_ladder.values(), Tally())
        levels = (
            (own, "at this dose"),
            (ladder, "of this question about this call"),
            (alike, f"under {cell.fault}"),
            (every, "under all faults"),
        )
        counted = [f"{each.harm} of {each.delivered} {words}" for each, words in levels if each.delivered]
        return f"harm in {', '.join(counted)}" if counted else "no episode with a fault"


def _either(risks: Sequence[Risk]) -> Risk:
    """Harm by at least one of two faults, as if they were independent."""

    def joined(values: Iterable[float]) -> float:
        return 1 - math.prod(1 - value for value in values)

    return Risk(
        joined(each.value for each in risks),
        "; ".join(each.evidence for each in risks) + "; as if independent",
    )


def unit(value: float, unknown: float = UNKNOWN_RISK) -> float:
    """The value within 0..1; ``unknown`` for one that is not a finite number."""
    return min(max(value, 0.0), 1.0) if math.isfinite(value) else unknown


@dataclass(frozen=True)
class Profile:
    """The knowledge about a component: success, mean affected components, and how strongly each is."""

    success: float = UNKNOWN_SUCCESS
    affected: Mapping[str, float] = field(default_factory=dict)
    """By affected component the strength, in 0..1."""
    critical: Collection[str] = ()
    """The components that the user counts as critical."""
    safe: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    """By parameter the smallest and largest value that it survived."""
    is_known: bool = False


def four_part_score(
    profile: Profile,
    parameters: Mapping[str, float],
    seconds: float,
    factors: Mapping[str, float] = {},
) -> dict[str, float]:
    """The heuristic score of an experiment: four parts, further ``factors`` and their ``total``, in 0..1.

    base is (1 - success) times the mean number of affected components, here at most 1; impact is 0.7 times
    the share of critical components among the affected and 0.3 times their mean strength; parameter the mean
    relative distance outside the safe ranges; duration the seconds of 300. Further factors are averaged with
    the total of the four.
    """
    strengths = [unit(each) for each in profile.affected.values()]
    if profile.is_known:
        base = (1 - unit(profile.success)) * min(len(strengths), 1)
        share = sum(name in profile.critical for name in profile.affected) / max(len(strengths), 1)
        impact = 0.7 * share + 0.3 * (sum(strengths) / max(len(strengths), 1))
    else:
        base, impact = UNKNOWN_RISK, UNKNOWN_IMPACT
    scores = {
        "base": unit(base),
        "impact": unit(impact),
        "parameter": _outside(profile.safe, parameters),
        "duration": unit(seconds / _LONG_S),
    }
    own = {name: unit(value) for name, value in factors.items() if name not in scores}
    total = sum(SCORE_WEIGHTS[name] * scores[name] for name in SCORE_WEIGHTS)
    total = (total + sum(own.values())) / (1 + len(own))
    return {**scores, **own, "total": unit(total)}


def _outside(safe: Mapping[str, tuple[float, float]], parameters: Mapping[str, float]) -> float:
    """The mean relative distance of the parameters outside their safe ranges, each at most 1."""
    known = [(safe[name], value) for name, value in parameters.items() if name in safe]
    if not known:
        return UNKNOWN_RISK
    return sum(unit(_distance(low, high, value)) for (low, high), value in known) / len(known)


def _distance(low: float, high: float, value: float) -> float:
    """0 inside; outside, by how much of the nearer bound's size; 1 beyond a bound of 0."""
    beyond = max(low - value, value - high, 0.0)
    if not beyond:
        return 0.0
    scale = abs(low if value < low else high)
    return beyond / scale if scale else 1.0


def merged(*tallies: Mapping[str, Tally]) -> dict[str, Tally]:
    """The sums by cell."""
    names = Counter(name for each in tallies for name in each)
    return {name: sum((each.get(name, Tally()) for each in tallies), Tally()) for name in names}
