"""Estimators of figures that need a control: paired with the same episodes without faults. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from wirefault.experiments.estimates import Estimate, PairedLoss, Population, Rate, Terms
from wirefault.experiments.estimators import NOT_JUDGED, NOT_REACHED, Estimator, Figure, Measures
from wirefault.experiments.expression import Bounds, exactly
from wirefault.experiments.means import Mean, MeanDifference
from wirefault.experiments.measure import Measure

_TERMS = Terms()
_IN_ONE_ARM = "no data: no episode is in both arms"


class Loss(Estimator):
    """Of the success rate, paired by episode."""

    name = "paired difference, McNemar"
    low, high = -1.0, 1.0

    def against(self, figure: Figure, arm: Measures, control: Measures, terms: Terms) -> Measure:
        loss = loss_between(control, arm, terms)
        if loss is None or loss.bounds is None:
            return Measure(None)
        episodes = arm["success_rate"].episodes
        reason = NOT_JUDGED if loss.bounds == Bounds(self.low, self.high) else ""
        return Measure(loss.bounds, "", episodes, estimate=loss, reason=reason, with_interval=True)

    def at_best(self, figure: Figure, keys: Sequence[str], population: Population) -> Estimate:
        return PairedLoss(dict.fromkeys(keys, True), dict.fromkeys(keys, True), population)


def loss_between(before: Measures, after: Measures, terms: Terms = _TERMS) -> PairedLoss | None:
    """The loss of success rate, paired by episode; None without success rates."""
    rates = [side["success_rate"].estimate for side in (before, after) if "success_rate" in side]
    if len(rates) < 2 or not all(isinstance(rate, Rate) for rate in rates):
        return None
    first, second = (rate.outcomes for rate in rates if isinstance(rate, Rate))
    return PairedLoss(first, second, terms.population)


@dataclass(frozen=True)
class Rise(Estimator):
    """Of the mean of the figure ``of``, paired by episode."""

    of: str
    name = "paired mean difference, bootstrap"
    low = -math.inf

    def against(self, figure: Figure, arm: Measures, control: Measures, terms: Terms) -> Measure:
        before, after = (_mean(side, self.of) for side in (control, arm))
        if before is None or after is None:
            return Measure(None)
        estimate = MeanDifference(before, after)
        bounds = estimate.bounds
        if bounds is None:
            return Measure(None, reason=_IN_ONE_ARM)
        reason = "open: not every episode has a figure in both arms" if estimate.value is None else ""
        costly = tuple(key for key, difference in estimate.differences.items() if difference > 0)
        return Measure(bounds, "", costly, estimate=estimate, reason=reason)


class Slowdown(Estimator):
    """Time of the reached episodes, by the time of the control's same episodes."""

    name = "ratio of sums, bootstrap"

    def against(self, figure: Figure, arm: Measures, control: Measures, terms: Terms) -> Measure:
        reached = arm["recovery_efficiency"].reached if "recovery_efficiency" in arm else ()
        before, after = (_mean(side, "seconds") for side in (control, arm))
        if before is None or after is None:
            return Measure(None)
        if not reached:
            return Measure(None, reason=NOT_REACHED)
        pairs = {key: (after.sums[key][0], before.sums[key][0]) for key in reached if key in before.sums}
        pairs = {key: pair for key, pair in pairs.items() if pair[1] > 0}
        if not pairs:
            return Measure(None, reason=_IN_ONE_ARM)
        if before.missing or after.missing:
            reason = "open: not every episode has a time in both arms"
            return Measure(Bounds(0, math.inf), reason=reason)
        slow, quick = (math.fsum(pair[side] for pair in pairs.values()) for side in (0, 1))
        slower = tuple(key for key, (after_s, before_s) in pairs.items() if after_s > before_s)
        return Measure(exactly(slow / quick), "", slower, estimate=Mean(pairs, terms.population))


def _mean(measures: Measures, name: str) -> Mean | None:
    estimate = measures[name].estimate if name in measures else None
    return estimate if isinstance(estimate, Mean) else None
