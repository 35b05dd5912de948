"""Toxics that end in the midst of their attempt: which of them are over, by the clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from windtunnel.toxiproxy.planned import PlannedToxic


class Outages:
    """The planned toxics of the attempt that is armed. ``clock`` gives seconds since the epoch."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ends: list[tuple[float, PlannedToxic]] = []

    def begin(self, plan: Sequence[PlannedToxic], armed_at: float) -> None:
        """The seconds of each toxic count from ``armed_at``; one without any lasts until ``forget``."""
        self._ends = [(armed_at + toxic.seconds, toxic) for toxic in plan if toxic.seconds]

    def forget(self) -> None:
        """The attempt is over, so that none of its toxics is to be ended any more."""
        self.begin([], 0.0)

    @property
    def due(self) -> bool:
        """Whether a toxic is over."""
        return bool(self._ends) and min(end for end, _ in self._ends) <= self._clock()

    def take_ended(self) -> list[PlannedToxic]:
        """Those that are over, each of them once."""
        now = self._clock()
        over = [toxic for end, toxic in self._ends if end <= now]
        self._ends = [(end, toxic) for end, toxic in self._ends if end > now]
        return over
