"""One measure of an arm as numbers, and the only texts that are made of them. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from wirefault.experiments.estimates import Estimate, Rate, Terms
from wirefault.experiments.expression import Bounds
from wirefault.experiments.means import MeanDifference
from wirefault.stats.rates import percent

Unit = Literal["share", "s", "USD", "tokens", ""]
"""A share is from 0 to 1; a count has an empty unit."""
_ERROR = Terms().error


@dataclass(frozen=True)
class Measure:
    """``bounds`` are the lowest and highest value that the data leave open; None without data."""

    bounds: Bounds | None
    note: str = ""
    """The counts behind the value, such as ``(2 of 4 calls)``."""
    episodes: tuple[str, ...] = ()
    """The keys that show it."""
    why: str = ""
    """What shows it, where the figure alone does not."""
    estimate: Estimate | None = None
    """Only of a rate, a mean, a percentile or a difference."""
    rate: Rate | None = None
    """Of a known count: the share of the episodes that it counts."""
    reason: str = ""
    """Why it has no value, or no bounds that say anything."""
    reached: tuple[str, ...] = ()
    """The episodes that a fault reached, of a measure over these."""
    with_interval: bool = False
    """Whether ``text`` has the interval instead of the note."""
    unit: Unit = ""
    error: float = _ERROR
    """Of the interval, on each side."""

    @property
    def value(self) -> float:
        """The figure; nan without data, and where the data leave several values."""
        known = self.bounds is not None and self.bounds.low == self.bounds.high
        return float(self.bounds.low) if self.bounds is not None and known else math.nan

    @cached_property
    def interval(self) -> tuple[float, float] | None:
        """With the confidence of the experiment; None without an estimate or data."""
        return _ends(self.estimate, self.error) if self.bounds is not None else None

    @property
    def rate_interval(self) -> tuple[float, float] | None:
        """Of the rate of a count; None without one."""
        return _ends(self.rate, self.error)

    @property
    def n(self) -> int:
        """The units behind the interval, or the episodes of a count; 0 where nothing is known."""
        counted = self.estimate or self.rate
        return counted.n if counted is not None else 0

    @property
    def figure(self) -> str:
        """For people, with its note: ``90 % (18 of 20)``."""
        if self.bounds is None or self.reason:
            return self.reason or "no data"
        plus = "+" if isinstance(self.estimate, MeanDifference) and self.value > 0 else ""
        return f"{plus}{bounds_text(self.bounds, self.unit)}{f' {self.note}' if self.note else ''}"

    @property
    def text(self) -> str:
        """For people, of a rate and a count with the interval: ``90 % [68.3 %, 98.8 %]``."""
        if self.bounds is None or self.reason or not (self.with_interval or self.rate):
            return self.figure
        value = bounds_text(self.bounds, self.unit) if self.with_interval else self.figure
        ends = self.interval if self.with_interval else self.rate_interval
        return f"{value} {interval_text(ends, 'share')}" if ends else value

    def as_json(self) -> dict[str, Any]:
        """The numbers, with null for what is not known; of a count also the rate."""
        known = numbers(self.value, self.interval, self.n)
        bounds = self.bounds and [finite(self.bounds.low), finite(self.bounds.high)]
        whole = {"unit": self.unit, **known, "bounds": bounds, "note": self.reason or self.note}
        if self.rate is None:
            return whole
        return whole | {"rate": numbers(self.rate.value, self.rate_interval, self.rate.n)}


def _ends(estimate: Estimate | None, error: float) -> tuple[float, float] | None:
    if estimate is None or not estimate.n:
        return None
    interval = estimate.interval(error)
    return float(interval.low), float(interval.high)


def numbers(value: float | None, interval: tuple[float, float] | None, n: int) -> dict[str, Any]:
    """A figure for ``--json``; null for what is not known."""
    low, high = map(finite, interval or (None, None))
    return {"estimate": finite(value), "low": low, "high": high, "n": n}


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
    """Of the interval; of a count the episodes; else 0."""
    text: str
    _measure: Measure

    @classmethod
    def of(cls, name: str, measure: Measure, text: str = "") -> Number:
        """The number of a measure, with a text of the measure's."""
        number, bounds = cls(measure.value), measure.bounds
        number.name, number.unit, number.text = name, measure.unit, text or measure.text
        number.bounds = (float(bounds.low), float(bounds.high)) if bounds is not None else None
        number.interval, number.n, number._measure = measure.interval, measure.n, measure
        return number

    def as_json(self) -> dict[str, Any]:
        """As of a measure, with the confidence of the interval."""
        sure = {"confidence": round(1 - 2 * self._measure.error, 6)} if self.interval else {}
        return self._measure.as_json() | sure

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


def interval_text(ends: tuple[float, float], unit: Unit) -> str:
    """``[12 %, 34 %]``."""
    return f"[{in_unit(ends[0], unit)}, {in_unit(ends[1], unit)}]"
