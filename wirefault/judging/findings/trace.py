"""What the rules look at: an episode's requests in their order, and what the subject made of them. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, TypeVar

from wirefault.history.event_ids import with_ids
from wirefault.history.events import (
    AttemptArmed,
    AttemptEnded,
    Event,
    Exchange,
    ModelCall,
    RunStarted,
    ToolCalled,
    ToolTry,
    ToxicsChanged,
    WentPastLab,
)
from wirefault.judging.findings.sent import Sent
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.toxiproxy.toxics import DOWN
from wirefault.wiring.lab import lab_links
from wirefault.wiring.links import Links

_EventT = TypeVar("_EventT", bound=Event, covariant=True)
_TryKey = tuple[int, str, str, int, int]
# A toxic of these kinds makes replies late or slow and keeps none back: who loses one has left by itself.
_ONLY_SLOW = frozenset({"slicer", "slow_close", "noop"})


@dataclass(frozen=True)
class Identified(Generic[_EventT]):
    """An event with its id."""

    id: str
    event: _EventT


@dataclass(frozen=True)
class EpisodeTrace:
    """An episode's requests by their start, its logical tool calls, and the ends of its attempts.

    ``attempt_seconds``: how long the run lets an attempt last. ``went_past``: what no link has carried.
    ``hidden``: the links on which a toxic may have kept requests from the gateway, so that only a caller
    that keeps a record shows them.
    """

    episode: str
    links: Links
    sent: Sequence[Sent]
    calls: Sequence[Identified[ToolCalled]] = ()
    ends: Sequence[Identified[AttemptEnded]] = ()
    attempt_seconds: float = 0.0
    went_past: Sequence[Identified[WentPastLab]] = ()
    hidden: frozenset[str] = frozenset()

    @cached_property
    def repeated(self) -> Sequence[Sequence[Sent]]:
        """The requests that ask for the same within an attempt, those that were sent more than once."""
        groups: defaultdict[object, list[Sent]] = defaultdict(list)
        for sent in self.sent:
            if sent.same is not None:
                groups[sent.same].append(sent)
        return [group for group in groups.values() if len(group) > 1]

    def between(self, first: Sent, second: Sent) -> Iterator[Sent]:
        """What was sent after the first had ended and before the second began, in the same attempt."""
        begin, end = bisect_left(self._starts, first.end), bisect_left(self._starts, second.start)
        for sent in self.sent[begin:end]:
            if sent.attempt == first.attempt and sent is not first:
                yield sent

    @cached_property
    def _starts(self) -> Sequence[float]:
        return [sent.start for sent in self.sent]

    def end_of(self, attempt: int) -> Identified[AttemptEnded] | None:
        return next((end for end in self.ends if end.event.attempt == attempt), None)


@dataclass
class _Episode:
    exchanges: list[Identified[Exchange]] = field(default_factory=list)
    tries: list[Identified[ToolTry | ModelCall]] = field(default_factory=list)
    calls: list[Identified[ToolCalled]] = field(default_factory=list)
    ends: list[Identified[AttemptEnded]] = field(default_factory=list)
    armed: list[AttemptArmed] = field(default_factory=list)
    toxics_changed: list[ToxicsChanged] = field(default_factory=list)
    went_past: list[Identified[WentPastLab]] = field(default_factory=list)


def traces(events: Iterable[Event]) -> Iterator[EpisodeTrace]:
    """The traces of a run's episodes, in the order in which they come in the history."""
    return traces_of(with_ids(events))


def traces_of(identified: Iterable[tuple[str, Event]]) -> Iterator[EpisodeTrace]:
    """The same of events that have their ids already."""
    started: RunStarted | None = None
    episodes: defaultdict[str, _Episode] = defaultdict(_Episode)
    for id, event in identified:
        match event:
            case RunStarted():
                started = event
            case Exchange() if event.episode and event.identity != "mismatch":
                episodes[event.episode].exchanges.append(Identified(id, event))
            case ToolTry() | ModelCall():
                episodes[event.episode].tries.append(Identified(id, event))
            case ToolCalled():
                episodes[event.episode].calls.append(Identified(id, event))
            case AttemptEnded():
                episodes[event.episode].ends.append(Identified(id, event))
            case AttemptArmed():
                episodes[event.episode].armed.append(event)
            case ToxicsChanged():
                episodes[event.episode].toxics_changed.append(event)
            case WentPastLab():
                episodes[event.episode].went_past.append(Identified(id, event))
    if not episodes:
        return  # reading the lab's wiring file takes time
    links = started.wired if started else lab_links()
    limit = float(started.settings.get("attempt_time", 0.0)) if started else 0.0
    for name, episode in episodes.items():
        calls = sorted(episode.calls, key=lambda call: call.event.t)
        sent = _all_sent(episode, links)
        hidden = frozenset(t.link for armed in episode.armed for t in armed.toxics if _may_hide(t))
        yield EpisodeTrace(name, links, sent, calls, episode.ends, limit, episode.went_past, hidden)


def _all_sent(episode: _Episode, links: Links) -> list[Sent]:
    tries = {_key(tried.event): tried for tried in episode.tries if _through_proxy(tried.event)}
    all_sent = []
    for exchange in episode.exchanges:
        tried = tries.pop(_key(exchange.event), None)
        all_sent.append(_sent(episode, links, exchange, tried))
    past_gateway = [tried for tried in episode.tries if not _through_proxy(tried.event)]
    all_sent += [_sent(episode, links, None, tried) for tried in (*tries.values(), *past_gateway)]
    return sorted(all_sent, key=lambda sent: sent.start)


def _sent(
    episode: _Episode,
    links: Links,
    exchange: Identified[Exchange] | None,
    tried: Identified[ToolTry | ModelCall] | None,
) -> Sent:
    sent = Sent(
        ids=tuple(record.id for record in (exchange, tried) if record),
        exchange=exchange.event if exchange else None,
        tried=tried.event if tried else None,
        link=None,
    )
    link = next((link for link in links if link.name == sent.link_name), None)
    lost = _replies_are_lost(episode, sent.attempt, sent.link_name)
    return Sent(sent.ids, sent.exchange, sent.tried, link, lost)


def _through_proxy(tried: ToolTry | ModelCall) -> bool:
    return isinstance(tried, ModelCall) or tried.route == "proxy"


def _key(record: Exchange | ToolTry | ModelCall) -> _TryKey:
    """The gateway counts as the caller does; a model's requests have no fingerprint."""
    match record:
        case Exchange():
            fingerprint = "" if record.of_model else record.fingerprint
            return record.attempt, record.link, fingerprint, record.call, record.try_
        case ToolTry():
            return record.attempt, record.link, record.fingerprint, record.call, record.try_
        case ModelCall():
            return record.attempt, "model", "", record.ordinal, record.try_


def _may_hide(toxic: PlannedToxic) -> bool:
    """Whether a request may never come through it to the gateway."""
    ends_connections = toxic.kind in (DOWN, "reset_peer")
    return ends_connections or (toxic.stream == "upstream" and toxic.kind not in _ONLY_SLOW)


def _replies_are_lost(episode: _Episode, attempt: int, link: str) -> bool | None:
    """Whether a toxic keeps every reply on that link from its caller; None if it is not known of which."""
    toxics = [
        toxic
        for armed in episode.armed
        if armed.attempt == attempt
        for toxic in armed.toxics
        if toxic.link == link and toxic.kind not in _ONLY_SLOW
    ]
    if not toxics:
        return False
    for_all = any(toxic.kind == "timeout" and toxic.stream == "downstream" for toxic in toxics)
    changed = any(change.action != "healed" and change.action != "armed" for change in episode.toxics_changed)
    return True if for_all and not changed else None
