"""One measure of an arm, and the texts of figures in their units. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from wirefault.experiments.estimates import Estimate, Terms
from wirefault.experiments.expression import Bounds
from wirefault.stats.rates import percent

Unit = Literal["share", "s", "USD", "tokens", ""]
"""A share is from 0 to 1; a count has an empty unit."""


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


class Number(float):
    """A measure to compute with and to format: ``f"{rate:.0%}"``. It prints as its text with the interval.

    It is nan without data, and where the data leave several values.
    """

    name: str
    unit: Unit
    """``s``, ``USD``, ``tokens``, ``share`` (from 0 to 1) or empty, for a count."""
    bounds: tuple[float, float] | None
    """The lowest and highest value that the data leave open; None without data."""
    interval: tuple[float, float] | None
    """With the confidence of the experiment, of a rate, a mean, a percentile or a difference."""
    n: int
    """Of the interval; 0 without one."""
    text: str

    @classmethod
    def of(cls, name: str, unit: Unit, measure: Measure, terms: Terms) -> Number:
        """The number of a measure."""
        bounds, estimate = measure.bounds, measure.estimate
        known = bounds is not None and bounds.low == bounds.high
        number = cls(float(bounds.low) if bounds is not None and known else math.nan)
        within = estimate.interval(terms.error) if estimate is not None and bounds is not None else None
        number.name, number.unit, number.text = name, unit, measure.text
        number.bounds = (float(bounds.low), float(bounds.high)) if bounds is not None else None
        number.interval = (float(within.low), float(within.high)) if within is not None else None
        number.n = estimate.n if estimate is not None else 0
        return number

    def as_json(self) -> dict[str, Any]:
        """With null for what is not known."""
        low, high = map(finite, self.interval or (None, None))
        ends = {"value": finite(self), "low": low, "high": high, "n": self.n, "text": self.text}
        return {"name": self.name, "unit": self.unit, **ends}

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<{self.name} {self.text}>"


def finite(value: Any) -> float | None:
    """The number; None for None, an infinite one and nan."""
    return float(value) if value is not None and math.isfinite(value) else None


def in_unit(value: float, unit: Unit) -> str:
    """A figure for people; an infinite one is ``unknown``."""
    if not math.isfinite(value):
        return "unknown"
    return percent(value) if unit == "share" else f"{value:.3g} s" if unit == "s" else f"{value:.4g}"


def bounds_text(bounds: Bounds, unit: Unit = "") -> str:
    """``3``, ``3 to 5`` or ``3 or more``."""
    low, high = in_unit(float(bounds.low), unit), in_unit(float(bounds.high), unit)
    if bounds.low == bounds.high or low == high:
        return low
    return f"{low} or more" if bounds.high == math.inf else f"{low} to {high}"


def interval_text(estimate: Estimate, terms: Terms, unit: Unit) -> str:
    """``[12 %, 34 %]``."""
    interval = estimate.interval(terms.error)
    return f"[{in_unit(float(interval.low), unit)}, {in_unit(float(interval.high), unit)}]"
