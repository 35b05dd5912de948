"""Matches tries with the armed faults of one run. It counts calls, sessions and replies; no effects."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from msgspec import Struct

from wirefault.core.identity import KeyedDraws, draw
from wirefault.dialects import Dialect
from wirefault.dialects.http import Reply, Request
from wirefault.dialects.mcp import MCP
from wirefault.dialects.registry import dialect_of
from wirefault.faults.base import Try
from wirefault.faults.counts import within
from wirefault.faults.matching.entry_index import ArmedEntry, EntryGroup, LinkCandidates
from wirefault.faults.sets.conditions import Moment
from wirefault.faults.sets.fault_set import Entry

KEPT_REPLIES = 8
_ANY_MOMENT = Moment()
_Session = tuple[str, str | None]  # link and id
_Met = list[tuple[ArmedEntry, Try]]  # with the try as the entry's fault sees it


class IncomingTry(Struct, frozen=True):
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
    is_write: Callable[[], bool] = lambda: False
    """Whether it is a write, by its link's declaration or probably."""
    by_name_only: bool = False
    """Only faults that name its link or its tool may act on it: a function whose requests meet the others."""

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
        if any(link in entry.links for entry in entries):  # also one armed by name: its kind is known now
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
        episode, message = incoming.episode, incoming.message
        if incoming.of_model:
            number, attempt = incoming.counted_call or incoming.call, (episode, incoming.attempt)
            self._model_requests[attempt] = max(self._model_requests[attempt], number)
        candidates = self._candidates.get(incoming.link)
        groups: Sequence[EntryGroup] = ()
        if candidates is not None:
            groups = candidates.at(incoming.method, incoming.path, message, incoming.of_model, incoming.read)
        if not groups:
            return _NOTHING
        met: _Met = []
        eligible: list[str] = []
        draws = self._draws(incoming)
        for group in groups:
            if group.of_episodes and not group.only.in_episode(episode):
                continue
            if incoming.by_name_only and not group.is_named:
                continue
            if group.of_writes and not incoming.of_model and not incoming.is_write():
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
        return self._try(entry, incoming, 1, partial(_chance, self._draws(incoming), entry.id))

    def _draws(self, tried: IncomingTry) -> KeyedDraws:
        key = tried.episode, tried.attempt, tried.link, tried.fingerprint, tried.call, tried.try_
        return KeyedDraws(self._seed, *key)

    def _add_met(self, group: EntryGroup, incoming: IncomingTry, draws: KeyedDraws, met: _Met) -> None:
        """Add the entries of the group that this try meets."""
        if group.after_write and not incoming.after_write:
            return
        count, moment = None, _ANY_MOMENT
        in_turn = group.turn is None or within(group.turn, incoming.turn)
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
                tried = self._try(entry, incoming, ordinal, chance_of, new_session=new_session)
                met.append((armed, tried))

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

    def _try(
        self,
        entry: Entry,
        incoming: IncomingTry,
        ordinal: int,
        chance: Callable[[str], float],
        *,
        new_session: bool = False,
    ) -> Try:
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
            new_session=new_session,
        )


def _dialect_of(incoming: IncomingTry) -> Dialect:
    if incoming.message is not None:
        return MCP.name
    if incoming.dialect:
        return incoming.dialect
    return dialect_of(incoming.path, of_model=incoming.of_model)


def _chance(draws: KeyedDraws, name: str, purpose: str) -> float:
    return draws.draw(f"{name}:{purpose}")
