"""For which of many armed entries a request is eligible, without asking each entry. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase, translate
from typing import Any

from pydantic_core import from_json

from wirefault.dialects.http import Request
from wirefault.faults.matching.trigger_index import ArmedEntry, TriggerIndex
from wirefault.faults.sets.dose import Dose
from wirefault.faults.sets.fault_set import Entry
from wirefault.faults.sets.selectors import field

_MOST_CACHED = 4096  # clients may send any number of methods and paths
_WILD = re.compile(r"[*?\[]")
_SCALAR = (str, int, float, type(None))


class EntryGroup:
    """Entries with the same selectors: the same requests are eligible, so they share one count of them.

    ``counts``: whether one of them needs that count. ``of_episodes``: whether they choose by the episode.
    ``ids`` are those of its entries, which an eligible exchange must record where the history does not hold
    what they choose by: a header or the body (then they are not ``by_history``), or the method of a message.
    """

    def __init__(self, armed: Sequence[ArmedEntry]) -> None:
        self.only = only = armed[0].entry.only
        self.triggers = TriggerIndex(armed)
        self.counts = any(_counts(a.entry) for a in armed)
        self.ids = [a.entry.id for a in armed]
        self.of_episodes = bool(only.episodes)
        self.by_history = only.by_history
        self._of_mcp = armed[0].entry.fault.where == "mcp"
        self._usual = _usual_messages(armed[0].entry)
        self._messages = self._usual if only.method is None else (only.method,)
        self._method = re.compile(translate(only.method.upper())).match if only.method is not None else None
        self._path = re.compile(translate(only.path)).match if only.path is not None else None

    def could_match(self, method: str, path: str, message: str | None) -> bool:
        """By what selects it without a look at headers and body. ``message`` as of ``IncomingTry``."""
        if self._path is not None and self._path(path) is None:
            return False
        by_http = self._method is not None and self._method(method) is not None
        if message is None:
            return not self._of_mcp and (by_http or self._method is None)
        if _like_any(message or method, self._messages):
            return True
        # every message is a POST, so that to ask for those says nothing of messages
        return by_http and (not message or _like_any(message, self._usual))


def _usual_messages(entry: Entry) -> tuple[str, ...]:
    """The messages of MCP that it strikes if its selectors name no method."""
    return ("*",) if "method" in entry.only.json_ else entry.fault.messages


def _like_any(message: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(message, pattern) for pattern in patterns)


def _counts(entry: Entry) -> bool:
    return entry.when.counts or entry.when.model_requests is not None or entry.fault.by_order


class LinkCandidates:
    """The entries of one link, without those that have no chance at all."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        entries = [entry for entry in entries if entry.when.probability > 0]
        armed = [
            ArmedEntry(place, entry, entry.certain, entry.dose != Dose())
            for place, entry in enumerate(entries)
        ]
        self.any = bool(armed)
        self.needs_body = any(entry.fault.needs_body or entry.only.reads_body for entry in entries)
        self.remembers = any(entry.fault.remembers for entry in entries)
        by_selectors: defaultdict[str, list[ArmedEntry]] = defaultdict(list)
        for one in armed:
            key = f"{one.entry.only!r} {_usual_messages(one.entry)} {one.entry.fault.where}"
            by_selectors[key].append(one)
        self._groups = [EntryGroup(group) for group in by_selectors.values()]
        self._by_request: dict[tuple[str, str, str | None], _CandidateIndex] = {}
        self._by_groups: dict[tuple[EntryGroup, ...], _CandidateIndex] = {}

    def at(
        self, method: str, path: str, message: str | None, read: Callable[[], Request]
    ) -> Sequence[EntryGroup]:
        """The groups for which the request is eligible. It is read only if a group needs header or body."""
        key = (method, path, message)
        index = self._by_request.get(key)
        if index is None:
            index = self._index(*key)
            if len(self._by_request) < _MOST_CACHED:
                self._by_request[key] = index
        return index.at(read)

    def _index(self, method: str, path: str, message: str | None) -> _CandidateIndex:
        groups = tuple(group for group in self._groups if group.could_match(method, path, message))
        index = self._by_groups.get(groups)
        if index is None:
            index = _CandidateIndex(groups)
            if len(self._by_groups) < _MOST_CACHED:
                self._by_groups[groups] = index
        return index


class _CandidateIndex:
    """Groups that match by method and path, indexed by one exact value that they ask for."""

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
            if isinstance(value, _SCALAR):
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
    """A request whose headers and body are parsed once, however many groups select by them."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._named: dict[str, str] | None = None
        self._parsed: Any = None  # the body's JSON or why it is none, in a list

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
        return field(self._read(), dotted)

    def _read(self) -> Any:
        if self._parsed is None:
            try:
                self._parsed = [from_json(self._request.body)]  # takes a third of the time of json
            except ValueError:
                self._parsed = [self._read_leniently()]
        return self._parsed[0]

    def _read_leniently(self) -> Any:
        try:
            return self._request.json()
        except ValueError as error:
            return error
