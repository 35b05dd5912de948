"""Which of many armed faults are aimed at a request, without asking each. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import translate
from typing import Any

from pydantic_core import from_json

from windtunnel.dialects.http import Request
from windtunnel.faults.matching.trigger_index import Armed, TriggerIndex
from windtunnel.faults.sets.fault_set import Entry
from windtunnel.faults.sets.selectors import Only, field

_MOST_KEPT = 4096  # methods and paths come from clients: there may be any number
_WILD = re.compile(r"[*?\[]")
_SCALAR = (str, int, float, type(None))


class Group:
    """Entries that are aimed at the same requests, so that what they count is the same.

    ``counts``: whether any of them goes by what came before it, so that what they match is counted.
    ``eligible_ids``: their ids, which the exchange records where no history holds by what they choose it.
    """

    def __init__(self, only: Only, armed: Sequence[Armed]) -> None:
        self.only = only
        self.due = TriggerIndex(armed)
        self.counts = any(_counts(one.entry) for one in armed)
        self.eligible_ids = [] if only.by_history else [one.entry.id for one in armed]
        self._method = only.method.upper() if only.method is not None else None
        self._path = re.compile(translate(only.path)).match if only.path is not None else None

    def could_match(self, method: str, path: str) -> bool:
        return (self._method is None or self._method == method) and (
            self._path is None or self._path(path) is not None
        )


def _counts(entry: Entry) -> bool:
    return entry.when.counts or entry.when.turns is not None or entry.fault.by_order


class LinkCandidates:
    """A link's entries. One with no chance at all is left out."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        entries = [one for one in entries if one.when.probability > 0]
        armed = [Armed(place, one, one.when.certain) for place, one in enumerate(entries)]
        self.any = bool(armed)
        self.needs_body = any(one.entry.fault.needs_body or one.entry.only.reads_body for one in armed)
        self.remembers = any(one.entry.fault.remembers for one in armed)
        alike: defaultdict[str, list[Armed]] = defaultdict(list)
        for one in armed:
            alike[repr(one.entry.only)].append(one)
        self._groups = [Group(same[0].entry.only, same) for same in alike.values()]
        self._found: dict[tuple[str, str], _CandidateIndex] = {}
        self._shelves: dict[tuple[Group, ...], _CandidateIndex] = {}

    def at(self, method: str, path: str, read: Callable[[], Request]) -> Sequence[Group]:
        """The groups that are aimed at that request, which is read only if one of them asks for more."""
        key = (method, path)
        shelf = self._found.get(key)
        if shelf is None:
            shelf = self._shelf(*key)
            if len(self._found) < _MOST_KEPT:
                self._found[key] = shelf
        return shelf.at(read)

    def _shelf(self, method: str, path: str) -> _CandidateIndex:
        groups = tuple(group for group in self._groups if group.could_match(method, path))
        shelf = self._shelves.get(groups)
        if shelf is None:
            shelf = _CandidateIndex(groups)
            if len(self._shelves) < _MOST_KEPT:
                self._shelves[groups] = shelf
        return shelf


class _CandidateIndex:
    """Groups that match by method and path: those that ask for no more, others by a value they ask for."""

    def __init__(self, groups: Iterable[Group]) -> None:
        self._plain: list[Group] = []
        self._asked: list[Group] = []
        self._by_header: defaultdict[str, defaultdict[str, list[Group]]] = defaultdict(_lists)
        self._by_field: defaultdict[str, defaultdict[Any, list[Group]]] = defaultdict(_lists)
        for group in groups:
            self._place(group).append(group)

    def _place(self, group: Group) -> list[Group]:
        only = group.only
        for name, value in only.header.items():
            if not _WILD.search(value):
                return self._by_header[name.lower()][value]
        for name, wanted in only.json_.items():
            if isinstance(wanted, _SCALAR):
                return self._by_field[name][wanted]
        return self._asked if only.header or only.json_ else self._plain

    def at(self, read: Callable[[], Request]) -> Sequence[Group]:
        if not (self._asked or self._by_header or self._by_field):
            return self._plain
        look = _RequestView(read())
        return [*self._plain, *(group for group in self._possible(look) if group.only.matches(look))]

    def _possible(self, look: _RequestView) -> Iterator[Group]:
        yield from self._asked
        for name, by_value in self._by_header.items():
            value = look.find_header(name)
            if value is not None:
                yield from by_value.get(value, ())
        for name, by_wanted in self._by_field.items():
            found = look.field(name)
            if isinstance(found, _SCALAR):
                yield from by_wanted.get(found, ())


def _lists() -> defaultdict[Any, list[Group]]:
    return defaultdict(list)


class _RequestView:
    """A request of which headers and body are read once, however many ask."""

    def __init__(self, request: Request) -> None:
        self.method, self.path = request.method, request.path
        self._request = request
        self._named: dict[str, str] | None = None
        self._parsed: Any = None  # the body's JSON or why it is none, in a list

    def find_header(self, name: str) -> str | None:
        if self._named is None:
            named: dict[str, str] = {}
            self._named = named
            for one, value in self._request.headers:
                key = one.lower()
                named[key] = f"{named[key]}, {value}" if key in named else value
        return self._named.get(name.lower())

    def json(self) -> Any:
        body = self._read()
        if isinstance(body, ValueError):
            raise body
        return body

    def field(self, dotted: str) -> Any:
        return field(self._read(), dotted)

    def _read(self) -> Any:
        if self._parsed is None:
            try:
                self._parsed = [from_json(self._request.body)]  # at a third of json's cost
            except ValueError:
                self._parsed = [self._read_leniently()]
        return self._parsed[0]

    def _read_leniently(self) -> Any:
        try:
            return self._request.json()
        except ValueError as error:
            return error
