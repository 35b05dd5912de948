"""An index of many armed entries by their triggers and draws, so that a try need not ask each one. Pure."""

from __future__ import annotations

import math
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from wirefault.core.identity import digest
from wirefault.faults.sets.conditions import Moment, When
from wirefault.faults.sets.fault_set import Entry

_FACTOR, _NUMBER = 16, 8  # bytes
_SLOT = _FACTOR + _NUMBER
_DRAW = (1 << 64) - 1


class Draws:
    """Draws of 64 bits for a try, one for each name, in about the time of one hash.

    A draw is the upper half of the try's hash (``number``, 64 bits) times the name's hash (128 bits, odd)
    modulo 2**128: multiply-shift hashing (M. Dietzfelbinger and others, "A reliable randomized algorithm for
    the closest-pair problem", Journal of Algorithms 25, 1997). One multiplication of long integers makes all
    draws, in slots of 24 bytes, and they do not depend on each other.
    """

    def __init__(self, names: Iterable[str], bounds: Sequence[int]) -> None:
        self._bounds = bounds
        self._factors = _side_by_side(int.from_bytes(digest(name, size=_FACTOR), "big") | 1 for name in names)
        # per slot: the bits of the draw, the bit above them, and the number that makes a draw at its bound
        # carry into that bit
        self._draws = _side_by_side(_DRAW << 64 for _ in bounds)
        self._carries = _side_by_side(1 << 128 for _ in bounds)
        self._missing = _side_by_side(((1 << 64) - bound) << 64 for bound in bounds)
        self._upper = struct.Struct("<" + "8xQ8x" * len(bounds)).unpack

    def below(self, number: int) -> Sequence[tuple[int, int]]:
        """Index and draw of each draw below its bound, for the try with that number."""
        products = self._factors * number
        # one addition compares all: a draw that is not below its bound carries into the bit above it
        if (products & self._draws) + self._missing & self._carries == self._carries:
            return ()
        draws = self._upper(products.to_bytes(_SLOT * len(self._bounds), "little"))
        pairs = enumerate(zip(draws, self._bounds, strict=True))
        return [(place, draw) for place, (draw, bound) in pairs if draw < bound]


def _side_by_side(values: Iterable[int]) -> int:
    """One long integer with a slot for each value, the first in its lowest bytes."""
    return int.from_bytes(b"".join(value.to_bytes(_SLOT, "little") for value in values), "little")


def chance_of(draw: int) -> float:
    """Convert a 64-bit draw to [0, 1), by its upper 53 bits."""
    return (draw >> 11) / float(1 << 53)


def bound_of(probability: float) -> int:
    """The bound with ``draw < bound`` exactly if ``chance_of(draw) < probability``."""
    return math.ceil(probability * (1 << 53)) << 11


_CERTAIN = 1 << 64
_Interval = tuple[float, float]  # from the first value to before the end
_ALWAYS: _Interval = (0, math.inf)


class ArmedEntry(NamedTuple):
    """An entry and its index in its set. ``certain``: every eligible try meets it. ``dosed``: it applies to a
    part of the attempt only, or by one draw per attempt.
    """

    place: int
    entry: Entry
    certain: bool
    dosed: bool


class TriggerIndex:
    """Excludes the entries that a try cannot meet; ``When`` decides about the others.

    ``timed``: whether an entry depends on the time or the user's turn, which ``at`` then needs.
    """

    def __init__(self, armed: Sequence[ArmedEntry]) -> None:
        self._armed = [(_intervals(a.entry.when), a) for a in armed]
        boxes = [box for box, _ in self._armed]
        axes = zip(*boxes, strict=True)
        self._edges = [sorted({edge for interval in axis for edge in interval}) for axis in axes]
        self._cells: dict[tuple[int, ...], _Cell] = {}
        at_any_time = all(interval == _ALWAYS for box in boxes for interval in box)
        self.timed = any(_is_timed(a.entry) for a in armed)
        self._only_cell = _Cell(armed) if at_any_time else None

    def at(self, moment: Moment, number: Callable[[], int]) -> Sequence[tuple[ArmedEntry, float]]:
        """Possible entries with their draws. ``number``: 64 bits of the try's hash, called only if needed."""
        if self._only_cell is not None:
            return self._only_cell.possible(number)
        point = moment[:4]
        # the same entries are possible at all points between the same edges
        key = tuple(map(bisect_right, self._edges, point))
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = _Cell([armed for box, armed in self._armed if _within(box, point)])
        return cell.possible(number)


def _is_timed(entry: Entry) -> bool:
    return entry.when.window is not None or entry.when.turn is not None or bool(entry.dose.spans)


def _needs_no_draw(entry: Entry) -> bool:
    """Whether the try needs no draw; the attempt's draw may decide (``together``)."""
    rises = entry.when.window is not None or entry.dose.rises
    return entry.dose.together or (entry.when.probability == 1 and not rises)


def _intervals(when: When) -> tuple[_Interval, _Interval, _Interval, _Interval]:
    """The calls, tries, turns and seconds at which a try may meet it."""
    if when.persistent:
        return _ALWAYS, _ALWAYS, _ALWAYS, _ALWAYS
    counts = (
        _interval(when.nth),
        (when.passes + 1 if when.passes else 0, math.inf),
        _interval((1, when.first) if when.first else None),
    )
    counted = max(first for first, _ in counts), min(end for _, end in counts)
    of_calls = when.of == "call"
    window = (when.window.start, when.window.end or math.inf) if when.window else _ALWAYS
    return (
        counted if of_calls else _ALWAYS,
        _ALWAYS if of_calls else counted,
        _interval(when.model_requests),
        window,
    )


def _interval(span: tuple[int, int | None] | None) -> _Interval:
    if span is None:
        return _ALWAYS
    first, last = span
    return first, math.inf if last is None else last + 1


def _within(box: Sequence[_Interval], point: Sequence[float]) -> bool:
    return all(first <= value < end for (first, end), value in zip(box, point, strict=True))


class _Cell:
    """The entries allowed by counts and clock between two edges: some certain, some drawn."""

    def __init__(self, armed: Sequence[ArmedEntry]) -> None:
        undrawn = [_needs_no_draw(a.entry) for a in armed]
        self._certain = [(a, 0.0) for a, certain in zip(armed, undrawn, strict=True) if certain]
        self._drawn = [a for a, certain in zip(armed, undrawn, strict=True) if not certain]
        names = [f"{a.entry.id}:when" for a in self._drawn]
        self._draws = Draws(names, [_bound(a.entry.when) for a in self._drawn])

    def possible(self, number: Callable[[], int]) -> Sequence[tuple[ArmedEntry, float]]:
        if not self._drawn:
            return self._certain
        below = self._draws.below(number())
        return self._certain + [(self._drawn[place], chance_of(draw)) for place, draw in below]


def _bound(when: When) -> int:
    """The draw's bound. A persistent entry that was met once is met again by any draw."""
    return _CERTAIN if when.persistent else bound_of(when.probability)
