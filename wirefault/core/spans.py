"""The part of an attempt in which a fault or toxic is active, measured by the clock or in calls. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

SpanUnit = Literal["s", "calls"]

# a toxic rises in steps, because each step is a request to Toxiproxy
RAMP_STEPS = 4


@dataclass(frozen=True)
class Span:
    """``start``, ``duration`` and ``ramp`` in ``unit``; a duration of 0 lasts until the attempt ends.

    Seconds count from the arming of the attempt. Calls are the link's calls in the attempt, counted from 1;
    the span begins with the call ``start``. During ``ramp`` the strength rises to 100 %.
    """

    start: float = 0.0
    duration: float = 0.0
    ramp: float = 0.0
    unit: SpanUnit = "s"

    @property
    def end(self) -> float:
        """Return the first second or call after the span; infinite if it lasts until the attempt ends."""
        return self.start + self.duration if self.duration else math.inf

    @property
    def first(self) -> float:
        """Return an attempt's first position in this unit: second 0 or call 1."""
        return 1.0 if self.unit == "calls" else 0.0

    @property
    def changes_before(self) -> list[int]:
        """Return the calls before which the strength changes, except call 1; empty for a span in seconds."""
        if self.unit != "calls":
            return []
        start, end = int(self.start), self.end
        edges = {*range(start, start + max(int(self.ramp), 1)), *([] if math.isinf(end) else [int(end)])}
        return sorted(edges - {1})

    def overlaps(self, other: Span) -> bool:
        """Return whether both may be active at once; spans in different units may always overlap."""
        return self.unit != other.unit or (self.start < other.end and other.start < self.end)

    def share(self, position: float) -> float:
        """Return the strength in force at that second or for that call, from 0 to 1."""
        if not self.start <= position < self.end:
            return 0.0
        if not self.ramp:
            return 1.0
        return min(1.0, (position - self.start + self.first) / self.ramp)

    def step(self, position: float) -> float:
        """Return a toxic's strength, which rises by the clock in ``RAMP_STEPS`` equal steps.

        Full strength is reached at the end of the ramp.
        """
        share = self.share(position)
        if not self.ramp or self.unit == "calls" or not self.start <= position < self.end:
            return share
        return (math.floor(share * (RAMP_STEPS - 1)) + 1) / RAMP_STEPS

    def __str__(self) -> str:
        def in_words(value: float) -> str:
            return f"{value:g} s" if self.unit == "s" else f"{value:g} call{'s' if value != 1 else ''}"

        at = f"call {self.start:g}" if self.unit == "calls" else f"{self.start:g} s"
        begins = [f"from {at} on"] if self.start > self.first else []
        lasts = [f"for {in_words(self.duration)}"] if self.duration else []
        return ", ".join([*begins, *lasts, *([f"rising over {in_words(self.ramp)}"] if self.ramp else [])])
