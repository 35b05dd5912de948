"""Toxics that end in the midst of their attempt: which of them are over, by the clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from windtunnel.toxiproxy.planned import PlannedToxic


class Outages:
    """The planned toxics of the attempt that is armed. ``clock`` gives seconds since the epoch."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ends: list[tuple[float, PlannedToxic]] = []
        self._next_end = math.inf

    def begin(self, plan: Sequence[PlannedToxic], armed_at: float) -> None:
        """The seconds of each toxic count from ``armed_at``; one without any lasts until ``forget``."""
        self._ends = [(armed_at + toxic.seconds, toxic) for toxic in plan if toxic.seconds]
        self._find_next_end()

    def forget(self) -> None:
        """The attempt is over, so that none of its toxics is to be ended any more."""
        self.begin([], 0.0)

    @property
    def due(self) -> bool:
        """Whether a toxic is over; cheap, since it is asked every few milliseconds."""
        return self._next_end <= self._clock()

    def take_over(self) -> list[PlannedToxic]:
        """Those that are over, each of them once."""
        now = self._clock()
        over = [toxic for end, toxic in self._ends if end <= now]
        self._ends = [(end, toxic) for end, toxic in self._ends if end > now]
        self._find_next_end()
        return over

    def _find_next_end(self) -> None:
        self._next_end = min((end for end, _ in self._ends), default=math.inf)
