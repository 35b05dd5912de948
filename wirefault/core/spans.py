"""A part of an attempt in which a fault or a toxic stands: an outage, by the clock or by calls. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

SpanUnit = Literal["s", "calls"]

# a toxic's dose rises in steps, since each of them is a request to Toxiproxy
RAMP_STEPS = 4


@dataclass(frozen=True)
class Span:
    """``start``, ``duration`` and ``ramp`` in ``unit``; a duration of 0 lasts to the attempt's end.

    Seconds are those since the attempt was armed. Calls are those of the link in the attempt, counted from 1:
    from the call ``start`` on. Within ``ramp`` the dose rises to all of it.
    """

    start: float = 0.0
    duration: float = 0.0
    ramp: float = 0.0
    unit: SpanUnit = "s"

    @property
    def end(self) -> float:
        """The first second, or call, that is no longer in it; infinite where the attempt's end ends it."""
        return self.start + self.duration if self.duration else math.inf

    @property
    def first(self) -> float:
        """Where every attempt begins in this unit: the second 0, or the call 1."""
        return 1.0 if self.unit == "calls" else 0.0

    @property
    def changes_before(self) -> list[int]:
        """Of a span in calls, those before which the dose changes, but for the first call of all."""
        if self.unit != "calls":
            return []
        start, end = int(self.start), self.end
        edges = {*range(start, start + max(int(self.ramp), 1)), *([] if math.isinf(end) else [int(end)])}
        return sorted(edges - {1})

    def overlaps(self, other: Span) -> bool:
        """Whether both may stand at once; of different units nobody can tell beforehand."""
        return self.unit != other.unit or (self.start < other.end and other.start < self.end)

    def share(self, position: float) -> float:
        """How much of the dose is in force at that second, or for that call: 0 to 1."""
        if not self.start <= position < self.end:
            return 0.0
        if not self.ramp:
            return 1.0
        return min(1.0, (position - self.start + self.first) / self.ramp)

    def step(self, position: float) -> float:
        """The share as a toxic has it: by the clock it rises in ``RAMP_STEPS`` equal steps, the last of which
        is reached at the ramp's end."""
        share = self.share(position)
        if not self.ramp or self.unit == "calls" or not self.start <= position < self.end:
            return share
        return (math.floor(share * (RAMP_STEPS - 1)) + 1) / RAMP_STEPS

    def __str__(self) -> str:
        def shown(value: float) -> str:
            return f"{value:g} s" if self.unit == "s" else f"{value:g} call{'s' if value != 1 else ''}"

        at = f"call {self.start:g}" if self.unit == "calls" else f"{self.start:g} s"
        begins = [f"from {at} on"] if self.start > self.first else []
        lasts = [f"for {shown(self.duration)}"] if self.duration else []
        return ", ".join([*begins, *lasts, *([f"rising over {shown(self.ramp)}"] if self.ramp else [])])
