"""Index of the armed entries by selectors, triggers and draws, so that a try need not ask each one. Pure."""

from __future__ import annotations

import math
import re
import struct
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase, translate
from typing import Any, NamedTuple
from urllib.parse import quote

from pydantic_core import from_json

from wirefault.core.identity import digest
from wirefault.dialects.http import Request
from wirefault.faults.sets.conditions import TOOL_FIELD, Moment, Only, When, nested_field
from wirefault.faults.sets.dose import Dose
from wirefault.faults.sets.fault_set import Entry

_MAX_CACHED = 4096  # clients may send any number of methods and paths
_WILD = re.compile(r"[*?\[]")
_SCALAR = (str, int, float, type(None))


class ArmedEntry(NamedTuple):
    """An entry and its index in its set. ``certain``: every eligible try meets it. ``dosed``: it applies to a
    part of the attempt only, or by one draw per attempt.
    """

    place: int
    entry: Entry
    certain: bool
    dosed: bool


class EntryGroup:
    """Entries with the same selectors, links, turns and writes to wait for, which share one count of eligible
    requests.

    ``scope`` names that count: the groups of the entries' other links have the same.

    ``counts``: whether an entry needs that count. ``of_episodes``: whether they select by episode. ``ids`` of
    its entries are recorded with an eligible exchange if the history lacks what they select by: a header or
    the body (not ``by_history``), or the method of a message. ``of_writes``: it selects, of the requests that
    ask no model, only probable writes.
    """

    def __init__(
        self,
        scope: str,
        of_model: bool | None,
        of_writes: bool,
        of_function: bool,
        is_named: bool,
        armed: Sequence[ArmedEntry],
    ) -> None:
        """``of_model``: whether it selects requests to models alone, or others alone; None for all.
        ``of_writes``: of the others, only probable writes. ``of_function``: it selects calls of functions by
        the tool's name. ``is_named``: it names the link or the tool.
        """
        self.of_writes = of_writes
        self.is_named = is_named
        self.scope = scope
        self.turn = armed[0].entry.when.turn
        self.after_write = armed[0].entry.when.after_write
        self.persistent = any(a.entry.when.persistent for a in armed)
        only = armed[0].entry.only
        self.only = only = _by_path(only) if of_function else only
        self.triggers = TriggerIndex(armed)
        self.counts = any(_counts(a.entry) for a in armed)
        self.ids = [a.entry.id for a in armed]
        self.of_episodes = bool(only.episodes)
        self.by_history = only.by_history and not (of_writes or of_function)
        self._of_mcp = armed[0].entry.fault.where == "mcp"
        self._usual = _usual_messages(armed[0].entry)
        self._messages = self._usual if only.method is None else (only.method,)
        self._of_model = of_model
        self._method = re.compile(translate(only.method.upper())).match if only.method is not None else None
        self._path = re.compile(translate(only.path)).match if only.path is not None else None

    def could_match(self, method: str, path: str, message: str | None, of_model: bool) -> bool:
        """Whether method, path and message match. ``message`` as in ``IncomingTry``."""
        if self._of_model is not None and self._of_model != of_model:
            return False
        if self._path is not None and self._path(path) is None:
            return False
        by_http = self._method is not None and self._method(method) is not None
        if message is None:
            return not self._of_mcp and (by_http or self._method is None)
        if _like_any(message or method, self._messages):
            return True
        # every message is a POST, so the selector POST does not select messages
        return by_http and (not message or _like_any(message, self._usual))


def _side(entry: Entry, link: str) -> bool | None:
    """Which requests on the link it strikes, as ``EntryGroup`` has it."""
    if link in entry.models_only:
        return True
    return False if link in entry.tools_only else None


def _by_path(only: Only) -> Only:
    """The selectors for calls of functions, which have the tool's name as their path."""
    fields = {name: value for name, value in only.json_.items() if name != TOOL_FIELD}
    path = f"/{quote(only.tool or '', safe='*?[]')}"
    return only.model_copy(update={"method": None, "path": path, "json_": fields})


def _usual_messages(entry: Entry) -> tuple[str, ...]:
    """The MCP messages that are eligible if its selectors name no method."""
    return ("*",) if "method" in entry.only.json_ else entry.fault.messages


def _like_any(message: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(message, pattern) for pattern in patterns)


def _counts(entry: Entry) -> bool:
    return entry.when.counts or entry.when.model_requests is not None or entry.fault.by_order


class LinkCandidates:
    """The entries of one link with a probability above 0."""

    def __init__(
        self, link: str, entries: Iterable[tuple[int, Entry]], scopes: Sequence[Sequence[str]]
    ) -> None:
        """``entries`` with their places in the set; ``scopes``: the links of each entry of the set."""
        entries = list(entries)
        possible = [(place, entry) for place, entry in entries if entry.when.probability > 0]
        armed = [ArmedEntry(place, entry, entry.certain, entry.dose != Dose()) for place, entry in possible]
        self.any = {
            side: any(entry.strikes(link, of_model=side) for _, entry in entries) for side in (True, False)
        }
        self.needs_body = any(
            e.fault.needs_body or e.only.reads_body or link in e.writes_only for _, e in possible
        )
        self.remembers = any(entry.fault.remembers for _, entry in possible)
        by_selectors: defaultdict[tuple[str, bool | None, bool, bool, bool], list[ArmedEntry]] = defaultdict(
            list
        )
        for one in armed:
            selectors = f"{one.entry.only!r} {_usual_messages(one.entry)} {one.entry.fault.where}"
            when = one.entry.when
            scope = f"{selectors} {when.turn} {when.after_write} {scopes[one.place]}"
            side, of_writes = _side(one.entry, link), link in one.entry.writes_only
            of_function, is_named = link in one.entry.functions, one.entry.names(link)
            by_selectors[scope, side, of_writes, of_function, is_named].append(one)
        self._groups = [EntryGroup(*selected, group) for selected, group in by_selectors.items()]
        self._by_request: dict[tuple[str, str, str | None, bool], _CandidateIndex] = {}
        self._by_groups: dict[tuple[EntryGroup, ...], _CandidateIndex] = {}

    def at(
        self, method: str, path: str, message: str | None, of_model: bool, read: Callable[[], Request]
    ) -> Sequence[EntryGroup]:
        """The groups for which the request is eligible; reads it only if a group needs headers or body."""
        key = (method, path, message, of_model)
        index = self._by_request.get(key)
        if index is None:
            index = self._index(*key)
            if len(self._by_request) < _MAX_CACHED:
                self._by_request[key] = index
        return index.at(read)

    def _index(self, method: str, path: str, message: str | None, of_model: bool) -> _CandidateIndex:
        groups = tuple(group for group in self._groups if group.could_match(method, path, message, of_model))
        index = self._by_groups.get(groups)
        if index is None:
            index = _CandidateIndex(groups)
            if len(self._by_groups) < _MAX_CACHED:
                self._by_groups[groups] = index
        return index


class _CandidateIndex:
    """Groups that match by method and path, indexed by one exact value that they select."""

    def __init__(self, groups: Iterable[EntryGroup]) -> None:
        self._unconditional: list[EntryGroup] = []
        self._unindexed: list[EntryGroup] = []
        self._by_header: defaultdict[str, defaultdict[str, list[EntryGroup]]] = defaultdict(_lists)
        self._by_field: defaultdict[str, defaultdict[Any, list[EntryGroup]]] = defaultdict(_lists)
        for group in groups:
            self._place(group).append(group)

    def _place(self, group: EntryGroup) -> list[EntryGroup]:
        only = group.only
        for name, value in only.header.items():
            if not _WILD.search(value):
                return self._by_header[name.lower()][value]
        for name, value in only.json_.items():
            is_pattern = name == TOOL_FIELD and only.tool is not None and _WILD.search(only.tool)
            if isinstance(value, _SCALAR) and not is_pattern:
                return self._by_field[name][value]
        return self._unindexed if only.header or only.json_ else self._unconditional

    def at(self, read: Callable[[], Request]) -> Sequence[EntryGroup]:
        if not (self._unindexed or self._by_header or self._by_field):
            return self._unconditional
        view = _RequestView(read())
        chosen = (group for group in self._possible(view) if group.only.matches_content(view))
        return [*self._unconditional, *chosen]

    def _possible(self, view: _RequestView) -> Iterator[EntryGroup]:
        yield from self._unindexed
        for name, by_value in self._by_header.items():
            value = view.find_header(name)
            if value is not None:
                yield from by_value.get(value, ())
        for name, by_content in self._by_field.items():
            content = view.field(name)
            if isinstance(content, _SCALAR):
                yield from by_content.get(content, ())


def _lists() -> defaultdict[Any, list[EntryGroup]]:
    return defaultdict(list)


class _RequestView:
    """A request whose headers and body are parsed at most once for all groups."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._named: dict[str, str] | None = None
        self._parsed: Any = None  # the body's JSON or a ValueError, in a list

    def find_header(self, name: str) -> str | None:
        if self._named is None:
            named: dict[str, str] = {}
            self._named = named
            for header, value in self._request.headers:
                key = header.lower()
                named[key] = f"{named[key]}, {value}" if key in named else value
        return self._named.get(name.lower())

    def json(self) -> Any:
        body = self._read()
        if isinstance(body, ValueError):
            raise body
        return body

    def field(self, dotted: str) -> Any:
        return nested_field(self._read(), dotted)

    def _read(self) -> Any:
        if self._parsed is None:
            try:
                self._parsed = [from_json(self._request.body)]  # three times as fast as json
            except ValueError:
                self._parsed = [self._read_leniently()]
        return self._parsed[0]

    def _read_leniently(self) -> Any:
        try:
            return self._request.json()
        except ValueError as error:
            return error


_CERTAIN = 1 << 64
_Interval = tuple[float, float]  # from the first value to before the end
_ALWAYS: _Interval = (0, math.inf)


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
