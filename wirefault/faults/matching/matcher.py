"""Matches tries with the armed faults of one run, by selectors, counts and draws. No effects."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase, translate
from functools import partial
from typing import Any, NamedTuple

from pydantic_core import from_json

from wirefault.core.identity import KeyedDraws, draw
from wirefault.dialects import Dialect
from wirefault.dialects.http import Reply, Request
from wirefault.dialects.mcp import MCP
from wirefault.dialects.registry import dialect_of
from wirefault.faults.base import Try
from wirefault.faults.matching.trigger_index import ArmedEntry, TriggerIndex
from wirefault.faults.sets.conditions import Moment, nested_field, within
from wirefault.faults.sets.dose import Dose
from wirefault.faults.sets.fault_set import Entry

_MAX_CACHED = 4096  # clients may send any number of methods and paths
_WILD = re.compile(r"[*?\[]")
_SCALAR = (str, int, float, type(None))


class EntryGroup:
    """Entries with the same selectors, links, turns and writes to wait for, which share one count of eligible
    requests.

    ``scope`` names that count: the groups of the entries' other links have the same.

    ``counts``: whether an entry needs that count. ``of_episodes``: whether they select by episode. ``ids`` of
    its entries are recorded with an eligible exchange if the history lacks what they select by: a header or
    the body (not ``by_history``), or the method of a message.
    """

    def __init__(self, scope: str, of_model: bool | None, armed: Sequence[ArmedEntry]) -> None:
        """``of_model``: whether it selects requests to models alone, or others alone; None for all."""
        self.scope = scope
        self.turn = armed[0].entry.when.turn
        self.after_write = armed[0].entry.when.after_write
        self.persistent = any(a.entry.when.persistent for a in armed)
        self.only = only = armed[0].entry.only
        self.triggers = TriggerIndex(armed)
        self.counts = any(_counts(a.entry) for a in armed)
        self.ids = [a.entry.id for a in armed]
        self.of_episodes = bool(only.episodes)
        self.by_history = only.by_history
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
        self.needs_body = any(e.fault.needs_body or e.only.reads_body for _, e in possible)
        self.remembers = any(entry.fault.remembers for _, entry in possible)
        by_selectors: defaultdict[tuple[str, bool | None], list[ArmedEntry]] = defaultdict(list)
        for one in armed:
            selectors = f"{one.entry.only!r} {_usual_messages(one.entry)} {one.entry.fault.where}"
            when = one.entry.when
            scope = f"{selectors} {when.turn} {when.after_write} {scopes[one.place]}"
            by_selectors[scope, _side(one.entry, link)].append(one)
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


KEPT_REPLIES = 8
_ANY_MOMENT = Moment()
_Session = tuple[str, str | None]  # link and id
_Met = list[tuple[ArmedEntry, Try]]  # with the try as the entry's fault sees it


class IncomingTry(NamedTuple):
    """A try as the gateway identified it. ``elapsed_s``: seconds since the run's start.

    ``read`` returns the request as faults see it, and is called only if a fault needs it. ``message``: on an
    MCP link the message's method, empty without a message; None on other links. ``lines`` as in ``Try``,
    ``attempt_s``, ``link_call`` and ``turn`` as in ``Moment``.
    """

    link: str
    method: str
    path: str
    read: Callable[[], Request]
    fingerprint: str
    episode: str
    attempt: int
    call: int
    try_: int
    elapsed_s: float
    of_model: bool = False
    message: str | None = None
    lines: bool = False
    attempt_s: float = 0.0
    link_call: int = 1
    turn: int = 1
    counted_call: int = 0
    """The number of its call for triggers, if it differs from ``call``: a client's own retry has the number
    of the call that it repeats."""
    dialect: Dialect = ""
    """The API that it speaks; empty if its path shows it."""
    after_write: bool = False
    """Whether an upstream has carried out a write in the episode."""
    counted_fingerprint: str = ""
    """The fingerprint of its call for triggers, if it differs: a retry may have ids of its own."""

    def moment(self, calls: int = 1, tries: int = 1, model_requests: int = 0) -> Moment:
        """The moment of the try, with an entry's counts of the tries that it matched."""
        return Moment(
            calls,
            tries,
            model_requests,
            self.elapsed_s,
            turn=self.turn,
            attempt_s=self.attempt_s,
            link_call=self.link_call,
        )


class MatchedFaults(NamedTuple):
    """The entries that a try ``met``, in the set's order, each with the try as its fault sees it.

    ``eligible``: ids of entries that selected the try by a header, its body or its message, met or not.
    """

    met: Sequence[tuple[Entry, Try]] = ()
    eligible: Sequence[str] = ()


@dataclass
class _GroupCount:
    """The tries of one episode that were eligible for a group.

    ``ordinals`` number their calls. ``met``: by an entry's index, how often and at which call last.
    """

    ordinals: dict[tuple[int, str, str, int], int] = field(default_factory=dict)
    tries: int = 0
    met: dict[int, tuple[int, int]] = field(default_factory=dict)

    def add(self, incoming: IncomingTry, model_requests: int) -> Moment:
        """Count this try and return its moment."""
        self.tries += 1
        number = incoming.counted_call or incoming.call
        fingerprint = incoming.counted_fingerprint or incoming.fingerprint
        call = (incoming.attempt, incoming.link, fingerprint, number)
        ordinal = self.ordinals.setdefault(call, len(self.ordinals) + 1)
        return incoming.moment(ordinal, self.tries, model_requests)


_NOTHING = MatchedFaults()


class FaultMatcher:
    """The armed entries of one run. Call ``match`` once for each try, in order of arrival.

    ``remembering``: the links whose replies must be remembered.
    """

    def __init__(self, seed: int, entries: Iterable[Entry]) -> None:
        self._seed = seed
        self.entries = tuple(entries)
        self._scopes = [entry.named or entry.links for entry in self.entries]
        self._candidates = {
            link: self._link_candidates(link, self.entries)
            for link in dict.fromkeys(link for entry in self.entries for link in entry.links)
        }
        self.remembering = {link for link, candidates in self._candidates.items() if candidates.remembers}
        self._counts_model = any(entry.when.model_requests for entry in self.entries)
        self._counts: defaultdict[tuple[str, str], _GroupCount] = defaultdict(_GroupCount)
        self._sessions: defaultdict[tuple[str, str], set[_Session]] = defaultdict(set)
        self._lost: defaultdict[tuple[int, str], set[_Session]] = defaultdict(set)
        self._model_requests: Counter[tuple[str, int]] = Counter()
        self._requests: Counter[tuple[int, str, str]] = Counter()  # that met a fault ``of_server``
        self._replies: defaultdict[tuple[str, str], list[Reply]] = defaultdict(list)
        self._clocks: dict[tuple[int, str, int], float] = {}  # of ``start: first_met``

    def add_link(self, link: str, entries: Iterable[Entry]) -> None:
        """Arm a link that was found after the matcher was created. ``entries``: the whole set, as before."""
        entries = tuple(entries)
        if link not in self._candidates and any(link in entry.links for entry in entries):
            candidates = self._candidates[link] = self._link_candidates(link, entries)
            if candidates.remembers:
                self.remembering.add(link)

    def _link_candidates(self, link: str, entries: Sequence[Entry]) -> LinkCandidates:
        on_link = [(place, entry) for place, entry in enumerate(entries) if link in entry.links]
        return LinkCandidates(link, on_link, self._scopes)

    def armed(self, link: str, of_model: bool = False) -> bool:
        """Whether the link's requests may meet a fault or must be counted."""
        candidates = self._candidates.get(link)
        return (candidates is not None and candidates.any[of_model]) or (of_model and self._counts_model)

    def needs_body(self, link: str) -> bool:
        """Whether a request's body must be read completely."""
        return link in self._candidates and self._candidates[link].needs_body

    def remember(self, episode: str, link: str, reply: Reply) -> None:
        """Keep the upstream's complete reply for faults that repeat an earlier one."""
        replies = self._replies[episode, link]
        replies.append(reply)
        del replies[:-KEPT_REPLIES]

    def match(self, incoming: IncomingTry) -> MatchedFaults:
        """Count the try and return the faults that it meets."""
        link, episode, attempt, message = incoming.link, incoming.episode, incoming.attempt, incoming.message
        call = incoming.call
        if incoming.of_model:
            number = incoming.counted_call or call
            self._model_requests[episode, attempt] = max(self._model_requests[episode, attempt], number)
        candidates = self._candidates.get(link)
        groups: Sequence[EntryGroup] = ()
        if candidates is not None:
            groups = candidates.at(incoming.method, incoming.path, message, incoming.of_model, incoming.read)
        if not groups:
            return _NOTHING
        met: _Met = []
        eligible: list[str] = []
        draws = KeyedDraws(self._seed, episode, attempt, link, incoming.fingerprint, call, incoming.try_)
        for group in groups:
            if group.of_episodes and not group.only.in_episode(episode):
                continue
            if not group.by_history or message is not None:
                eligible += group.ids
            self._add_met(group, incoming, draws, met)
        if not (met or eligible):
            return _NOTHING
        met.sort(key=lambda pair: pair[0].place)
        return MatchedFaults([(armed.entry, tried) for armed, tried in met], eligible)

    def try_of(self, entry: Entry, incoming: IncomingTry) -> Try:
        """The try as seen by the fault of an entry that is not armed."""
        link, fingerprint, episode, attempt = (
            incoming.link,
            incoming.fingerprint,
            incoming.episode,
            incoming.attempt,
        )
        draws = KeyedDraws(self._seed, episode, attempt, link, fingerprint, incoming.call, incoming.try_)
        return self._try(entry, incoming, 1, partial(_chance, draws, entry.id))

    def _add_met(self, group: EntryGroup, incoming: IncomingTry, draws: KeyedDraws, met: _Met) -> None:
        """Add the entries of the group that this try meets."""
        if group.after_write and not incoming.after_write:
            return
        count, moment = None, _ANY_MOMENT
        in_turn = within(group.turn, incoming.turn)
        if not in_turn and not group.persistent:
            return
        if group.counts:
            count = self._counts[group.scope, incoming.episode]
            model_requests = self._model_requests.get((incoming.episode, incoming.attempt), 0)
            # a turn that the entry does not select has no part in its counts
            moment = count.add(incoming, model_requests) if in_turn else incoming.moment()
        elif group.triggers.timed:
            moment = incoming.moment()
        for armed, chance in group.triggers.at(moment, draws.number):
            header = armed.entry.fault.session_header
            new_session = bool(header) and self._is_new_session(armed, incoming, header)
            if new_session and not armed.entry.fault.restarts:
                continue
            if not armed.certain:
                times, last = count.met.get(armed.place, (0, 0)) if count is not None else (0, 0)
                moment = moment._replace(met=times, last_met=last)
                share = 1.0
                if armed.dosed:
                    chance, share = self._dose(armed, incoming, moment, chance)
                if not armed.entry.when.holds(moment, chance, share):
                    continue
                if count is not None:
                    count.met[armed.place] = times + 1, moment.calls
            loses = armed.entry.when.persistent or armed.entry.fault.restarts
            if header and loses and not self._lost[armed.place, incoming.episode]:
                self._lost[armed.place, incoming.episode] |= self._sessions[incoming.link, incoming.episode]
            entry = armed.entry
            chance_of = partial(_chance, draws, entry.id) if entry.id else draws.draw
            if entry.fault.wants(chance_of):
                ordinal = moment.calls
                if entry.fault.of_server:
                    self._requests[armed.place, incoming.link, incoming.episode] += 1
                    ordinal = self._requests[armed.place, incoming.link, incoming.episode]
                tried = self._try(entry, incoming, ordinal, chance_of)
                met.append((armed, replace(tried, new_session=new_session)))

    def _is_new_session(self, armed: ArmedEntry, incoming: IncomingTry, header: str) -> bool:
        """Note the try's session. Whether it began after the entry had been met, and so still exists."""
        session = incoming.read().find_header(header)
        lost = self._lost[armed.place, incoming.episode]
        if session:
            self._sessions[incoming.link, incoming.episode].add((incoming.link, session))
        return bool(lost) and (incoming.link, session) not in lost

    def _dose(
        self, armed: ArmedEntry, incoming: IncomingTry, moment: Moment, chance: float
    ) -> tuple[float, float]:
        """The deciding draw, of the try or of the whole attempt, and the share of the
        entry's probability in force."""
        entry = armed.entry
        if entry.dose.together:
            chance = draw(self._seed, incoming.episode, incoming.attempt, "", "", 0, 0, f"{entry.id}:when")
        seconds = incoming.attempt_s
        if entry.dose.from_first_met:
            key = armed.place, incoming.episode, incoming.attempt
            if key not in self._clocks:
                if not entry.when.holds(moment, chance):
                    return chance, 0.0
                self._clocks[key] = seconds
            seconds -= self._clocks[key]
        return chance, entry.dose.share(seconds, incoming.link_call)

    def _try(self, entry: Entry, incoming: IncomingTry, ordinal: int, chance: Callable[[str], float]) -> Try:
        return Try(
            link=incoming.link,
            dialect=_dialect_of(incoming),
            request=incoming.read(),
            episode=incoming.episode,
            attempt=incoming.attempt,
            call=incoming.call,
            try_=incoming.try_,
            ordinal=ordinal if entry.fault.by_order else 1,  # independent of the group's other entries
            chance=chance,
            earlier=tuple(self._replies[incoming.episode, incoming.link]) if entry.fault.remembers else (),
            lines=incoming.lines,
        )


def _dialect_of(incoming: IncomingTry) -> Dialect:
    if incoming.message is not None:
        return MCP.name
    if incoming.dialect:
        return incoming.dialect
    return dialect_of(incoming.path, of_model=incoming.of_model)


def _chance(draws: KeyedDraws, name: str, purpose: str) -> float:
    return draws.draw(f"{name}:{purpose}")
