"""One measure of an arm, and the texts and units of its figures. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from wirefault.experiments.arms import ArmFacts
from wirefault.experiments.estimates import Estimate, Terms
from wirefault.experiments.expression import Bounds
from wirefault.experiments.means import Mean
from wirefault.experiments.tries import tries_needed
from wirefault.stats.rates import percent


@dataclass(frozen=True)
class Measure:
    """``bounds`` is None without data. ``text`` is for people; ``episodes`` are the keys that show it.

    ``why``: what shows it, where the figure alone does not.
    """

    bounds: Bounds | None
    text: str
    episodes: tuple[str, ...] = ()
    why: str = ""
    estimate: Estimate | None = None
    """Only of a rate, a mean, a percentile or a difference."""
    figure: str = ""
    """The text without its interval, where that has one."""
    reached: tuple[str, ...] = ()
    """The episodes that a fault reached, of a measure over these."""


def in_units(name: str, value: float) -> str:
    """A value of the measure for people; an infinite one is ``unknown``."""
    if not math.isfinite(value):
        return "unknown"
    unit = unit_of(name)
    return percent(value) if unit == "share" else f"{value:.3g} s" if unit == "s" else f"{value:.4g}"


class Number(float):
    """A measure to compute with and to format: ``f"{rate:.0%}"``. It prints as its text with the interval.

    It is nan without data, and where the data leave several values.
    """

    name: str
    unit: str
    """``s``, ``USD``, ``tokens``, ``share`` (from 0 to 1) or empty, for a count."""
    bounds: tuple[float, float] | None
    """The lowest and highest value that the data leave open; None without data."""
    interval: tuple[float, float] | None
    """With the confidence of the experiment, of a rate, a mean, a percentile or a difference."""
    text: str

    @classmethod
    def of(cls, name: str, measure: Measure, terms: Terms) -> Number:
        """The number of a measure."""
        bounds, estimate = measure.bounds, measure.estimate
        known = bounds is not None and bounds.low == bounds.high
        number = cls(float(bounds.low) if bounds is not None and known else math.nan)
        within = estimate.interval(terms.error) if estimate is not None and bounds is not None else None
        number.name, number.unit, number.text = name, unit_of(name), measure.text
        number.bounds = (float(bounds.low), float(bounds.high)) if bounds is not None else None
        number.interval = (float(within.low), float(within.high)) if within is not None else None
        return number

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{self.name} {self.text}>"


def unit_of(name: str) -> str:
    """The unit of a measure: ``s``, ``USD``, ``tokens``, ``share``, or empty for a count."""
    name = name.removeprefix("control_").removeprefix(ADDED)
    if name in _SECONDS:
        return "s"
    if name in _SHARES or tries_needed(name):
        return "share"
    return "tokens" if name.endswith("tokens") else "USD" if name == "cost" or name.endswith("usd") else ""


ADDED = "added_"
COSTS_OF_FAULTS = (
    "cost_of_faults_tokens",
    "cost_of_faults_usd",
    "cost_of_faults_seconds",
    "budget_overshoot",
)
PER_EPISODE = ("seconds", "model_requests", "tokens", "cost", *COSTS_OF_FAULTS)
"""The means per episode, of which each has a paired difference to the control."""
RECOVERY_PERCENTILES = (50, 90, 95, 99)
SHARES_OF_RECOVERY = (
    "recovery_correctness",
    "recovery_completeness",
    "recovery_efficiency",
    "recovery_consistency",
)
_SHARES = frozenset(
    (
        "success_rate",
        "success_share",
        "recovery_rate",
        "degradation",
        "availability",
        "budget_overshoot",
        *SHARES_OF_RECOVERY,
    )
)
_SECONDS = frozenset(
    (
        *("p50", "p95", "p99", "mttr", "seconds", "cost_of_faults_seconds"),
        *(f"mttr_p{percent}" for percent in RECOVERY_PERCENTILES),
    )
)


def per_episode(
    arm: ArmFacts, terms: Terms, totals: Mapping[str, float] | None, *, rare: bool = False
) -> Measure:
    """``totals`` are of the valid episodes; ``rare``: most of them may be 0."""
    episodes = len(arm.valid.episodes) + max(arm.valid.missing, 0)
    if totals is None or not arm.valid.episodes:
        return Measure(None, "no data")
    sums = {key: (total, 1.0) for key, total in totals.items()}
    estimate = Mean(sums, terms.population, max(arm.valid.missing, 0), rare=rare)
    return replace(number_measure(open_above(arm, math.fsum(totals.values()) / episodes)), estimate=estimate)


def open_above(arm: ArmFacts, known: float) -> Bounds:
    """Bounds of a sum over the valid episodes: any other episode may add to it."""
    return Bounds(known, math.inf if arm.valid.missing > 0 else known)


def number_measure(bounds: Bounds, episodes: tuple[str, ...] = ()) -> Measure:
    if bounds.low == bounds.high:
        return Measure(bounds, f"{float(bounds.low):.4g}", episodes)
    top = "or more" if bounds.high == math.inf else f"to {float(bounds.high):.4g}"
    return Measure(bounds, f"{float(bounds.low):.4g} {top}", episodes)


def share_text(bounds: Bounds | None) -> str:
    if bounds is None:
        return "no data"
    low, high = percent(float(bounds.low)), percent(float(bounds.high))
    return low if low == high else f"{low} to {high}"


OfArm = Callable[[ArmFacts, Terms], Measure]
