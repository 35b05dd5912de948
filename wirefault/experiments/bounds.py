"""Figures of which only bounds may be known, and what can be said of them for certain. Pure.

The arithmetic is that of intervals (R. E. Moore, "Interval Analysis", 1966), the logic Kleene's with three
values, in which ``None`` is unknown (S. C. Kleene, "Introduction to Metamathematics", 1952, § 64).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

Truth = bool | None


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest value that a figure can have."""

    low: float
    high: float

    def __neg__(self) -> Bounds:
        return Bounds(-self.high, -self.low)

    def __add__(self, other: Bounds) -> Bounds:
        return Bounds(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Bounds) -> Bounds:
        return self + -other

    def __mul__(self, other: Bounds) -> Bounds:
        return _spanned(_product(a, b) for a in (self.low, self.high) for b in (other.low, other.high))

    def __truediv__(self, other: Bounds) -> Bounds:
        """Without limits where the divisor may be 0."""
        if other.low <= 0 <= other.high:
            return Bounds(-math.inf, math.inf)
        return _spanned(a / b for a in (self.low, self.high) for b in (other.low, other.high))


def exactly(value: float) -> Bounds:
    """A figure that is known."""
    return Bounds(value, value)


def _product(a: float, b: float) -> float:
    return 0.0 if 0 in (a, b) else a * b  # 0 times infinity, too


def _spanned(values: Iterable[float]) -> Bounds:
    found = list(values)
    return Bounds(min(found), max(found))


def _at_most(left: Bounds, right: Bounds) -> Truth:
    if left.high <= right.low:
        return True
    return False if left.low > right.high else None


def _equal(left: Bounds, right: Bounds) -> Truth:
    if left.low == left.high == right.low == right.high:
        return True
    return False if left.high < right.low or right.high < left.low else None


def opposite(truth: Truth) -> Truth:
    """Unknown stays unknown."""
    return None if truth is None else not truth


def every(truths: Iterable[Truth]) -> Truth:
    """False if one is, else unknown if one is."""
    given = list(truths)
    if False in given:
        return False
    return None if None in given else True


def some(truths: Iterable[Truth]) -> Truth:
    """True if one is, else unknown if one is."""
    return opposite(every(map(opposite, truths)))


COMPARISONS: dict[str, Callable[[Bounds, Bounds], Truth]] = {
    "<=": _at_most,
    ">=": lambda left, right: _at_most(right, left),
    "<": lambda left, right: opposite(_at_most(right, left)),
    ">": lambda left, right: opposite(_at_most(left, right)),
    "==": _equal,
    "!=": lambda left, right: opposite(_equal(left, right)),
}
