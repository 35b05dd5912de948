"""A counted or summed figure of an episode, of which the history may hold a part alone. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from wirefault.experiments.bounds import COMPARISONS, Bounds, Truth, exactly


@dataclass(frozen=True)
class Figure:
    """``gap``: why it is not known exactly, empty if it is. ``evidence``: ids of what was counted."""

    bounds: Bounds
    evidence: tuple[str, ...] = ()
    gap: str = ""

    @property
    def shown(self) -> str:
        """In words."""
        low, high = self.bounds.low, self.bounds.high
        if low == high:
            return f"{low:g}"
        return f"{low:g} or more" if high == math.inf else f"{low:g} to {high:g}"

    def at_most(self, limit: float) -> Truth:
        """Whether it is for certain."""
        return COMPARISONS["<="](self.bounds, exactly(limit))

    def at_least(self, limit: float) -> Truth:
        """Whether it is for certain."""
        return COMPARISONS[">="](self.bounds, exactly(limit))


def figure_of(low: float, evidence: Iterable[str] = (), gap: str = "") -> Figure:
    """The figure, which is at least that much if there is a gap."""
    return Figure(Bounds(low, math.inf if gap else low), tuple(dict.fromkeys(evidence)), gap)


def total(figures: Iterable[Figure], others: str = "") -> Figure:
    """All of them together. ``others``: why there are more, of which nothing is known; empty if not."""
    summed, evidence, gap = exactly(0), list[str](), others
    for figure in figures:
        summed += figure.bounds
        evidence += figure.evidence
        gap = gap or figure.gap
    bounds = Bounds(summed.low, math.inf) if others else summed
    return Figure(bounds, tuple(dict.fromkeys(evidence)), gap)
