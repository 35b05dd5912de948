"""Which of many armed faults are due at a try: by counts, the clock and draws, each not asked. Pure."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

from windtunnel.faults.matching.draws import Draws, bound_of, chance_of
from windtunnel.faults.sets.fault_set import Entry
from windtunnel.faults.sets.triggers import Moment, When

_CERTAIN = 1 << 64
Span = tuple[float, float]
_ALWAYS: Span = (0, math.inf)


class Armed(NamedTuple):
    """An entry and its place in its set; ``certain``: it strikes whatever it matches."""

    place: int
    entry: Entry
    certain: bool


class TriggerIndex:
    """Leaves out what cannot strike; whether the others do is for ``When`` to say.

    ``timed``: whether the clock has a say.
    """

    def __init__(self, armed: Sequence[Armed]) -> None:
        self._armed = [(_spans(one.entry.when), one) for one in armed]
        spans = [spans for spans, _ in self._armed]
        self._edges = [sorted({edge for span in axis for edge in span}) for axis in zip(*spans, strict=True)]
        self._parts: dict[tuple[int, ...], _Part] = {}
        at_any_time = all(span == _ALWAYS for one in spans for span in one)
        self.timed = any(one.entry.when.window is not None for one in armed)
        self._only_part = _Part(armed) if at_any_time else None

    def at(self, moment: Moment, number: Callable[[], int]) -> Sequence[tuple[Armed, float]]:
        """Each with its chance. ``number``: 64 bits of the try's own hash, asked for only if needed."""
        if self._only_part is not None:
            return self._only_part.due(number)
        point = moment[:4]
        cell = tuple(map(bisect_right, self._edges, point))  # between the same edges the same may strike
        part = self._parts.get(cell)
        if part is None:
            here = [one for spans, one in self._armed if _within(spans, point)]
            part = self._parts[cell] = _Part(here)
        return part.due(number)


def _spans(when: When) -> tuple[Span, Span, Span, Span]:
    """At which calls, tries, turns and seconds it may strike, as first and end."""
    if when.persistent:
        return _ALWAYS, _ALWAYS, _ALWAYS, _ALWAYS
    counts = (
        _span(when.nth),
        (0 if when.after is None else when.after + 1, math.inf),
        _span((1, when.first) if when.first else None),
    )
    counted = max(first for first, _ in counts), min(end for _, end in counts)
    of_calls = when.of == "call"
    window = (when.window.start, when.window.end or math.inf) if when.window else _ALWAYS
    return counted if of_calls else _ALWAYS, _ALWAYS if of_calls else counted, _span(when.turns), window


def _span(given: tuple[int, int | None] | None) -> Span:
    if given is None:
        return _ALWAYS
    first, last = given
    return first, math.inf if last is None else last + 1


def _within(spans: Sequence[Span], point: Sequence[float]) -> bool:
    return all(first <= at < end for (first, end), at in zip(spans, point, strict=True))


class _Part:
    """Entries that the counts and the clock allow: some certain, some by chance."""

    def __init__(self, armed: Sequence[Armed]) -> None:
        certain = [one.entry.when.probability == 1 and one.entry.when.window is None for one in armed]
        self._certain = [(one, 0.0) for one, sure in zip(armed, certain, strict=True) if sure]
        self._drawn = [one for one, sure in zip(armed, certain, strict=True) if not sure]
        names = [f"{one.entry.id}:when" for one in self._drawn]
        self._draws = Draws(names, [_bound(one.entry.when) for one in self._drawn])

    def due(self, number: Callable[[], int]) -> Sequence[tuple[Armed, float]]:
        if not self._drawn:
            return self._certain
        below = self._draws.below(number())
        return self._certain + [(self._drawn[place], chance_of(draw)) for place, draw in below]


def _bound(when: When) -> int:
    """What a draw must be less than; what struck once and persists strikes by any."""
    return _CERTAIN if when.persistent else bound_of(when.probability)
