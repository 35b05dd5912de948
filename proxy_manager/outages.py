"""Which of an attempt's planned toxics stand now: by the clock, their links' calls and the user's turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from wirefault.toxiproxy.planned import PlannedToxic


class ToxicsStep(NamedTuple):
    """What is to be made of the toxics that stand.

    ``standing``: all that are to stand from now on. ``started``: those of them that did not stand before, or
    in another dose. ``ended``: the planned ones that stood and are over.
    """

    standing: list[PlannedToxic]
    started: list[PlannedToxic]
    ended: list[PlannedToxic]


class Outages:
    """The planned toxics of the attempt that is armed. ``clock`` gives seconds, from whenever."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.forget()

    def forget(self) -> None:
        """The attempt is over, so that none of its toxics is to be changed any more."""
        self._plan: list[PlannedToxic] = []
        self._stood: list[PlannedToxic | None] = []
        self._armed_at = 0.0
        self._calls: dict[str, int] = {}
        self._turn = 1

    def begin(self, plan: Iterable[PlannedToxic]) -> None:
        """The attempt is armed with those of the plan that stand at its start."""
        self.forget()
        self._armed_at = self._clock()
        self._plan = list(plan)
        self._stood = [toxic.as_at(0.0, 1, 1) for toxic in self._plan]

    def add(self, plan: Iterable[PlannedToxic]) -> None:
        """More toxics of the same attempt, of a link that was found in its midst."""
        new = list(plan)
        self._plan += new
        self._stood += [None] * len(new)

    def note_call(self, link: str, number: int) -> None:
        """The call of that number is the last that has come on the link."""
        self._calls[link] = number

    def note_turn(self, number: int) -> None:
        """The user's turn of that number begins."""
        self._turn = number

    @property
    def standing(self) -> list[PlannedToxic]:
        """What was to stand when it was last asked for a change."""
        return [toxic for toxic in self._stood if toxic is not None]

    @property
    def due(self) -> bool:
        """Whether other toxics are to stand than do."""
        return bool(self._plan) and self._wanted() != self._stood

    @property
    def changing(self) -> bool:
        """Whether any toxic of the plan does not stand from the arming to the end."""
        return not all(toxic.lasts_attempt for toxic in self._plan)

    def take_change(self) -> ToxicsStep | None:
        """What is to change now, once; None if nothing is."""
        wanted, before = self._wanted(), self._stood
        if wanted == before:
            return None
        self._stood = wanted
        pairs = list(zip(before, wanted, strict=True))
        started = [new for old, new in pairs if new is not None and new != old]
        ended = [planned for planned, (old, new) in zip(self._plan, pairs, strict=True) if old and not new]
        return ToxicsStep(self.standing, started, ended)

    def _wanted(self) -> list[PlannedToxic | None]:
        seconds = self._clock() - self._armed_at
        return [toxic.as_at(seconds, self._calls.get(toxic.link, 1), self._turn) for toxic in self._plan]


def calls_with_changes(plan: Iterable[PlannedToxic]) -> dict[str, list[int]]:
    """By link the calls, counted from 1, before which the link's toxics change."""
    calls: dict[str, set[int]] = {}
    for toxic in plan:
        if toxic.span.changes_before:
            calls.setdefault(toxic.link, set()).update(toxic.span.changes_before)
    return {link: sorted(numbers) for link, numbers in calls.items()}


def standing_at_start(plan: Sequence[PlannedToxic]) -> list[PlannedToxic]:
    """Those that an attempt is armed with."""
    return [toxic for planned in plan if (toxic := planned.as_at(0.0, 1, 1)) is not None]
