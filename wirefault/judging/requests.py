"""The join of the caller's records and the gateway's: each request of an episode from both sides. Pure.

Evidence, oracles, findings, measures of recovery and reports all read this join. A subject that keeps no
record leaves only the gateway's side; a request that never reached the gateway leaves only the caller's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Generic, Literal, TypeVar

from wirefault.core.caller_errors import error_kind
from wirefault.dialects.mcp import ToolAnswer
from wirefault.history.events import (
    LAB_MODEL,
    AttemptArmed,
    AttemptEnded,
    ConnectionEnded,
    EpisodeStarted,
    Event,
    Exchange,
    FaultMet,
    ModelCall,
    RunStarted,
    ToolCalled,
    ToolTry,
    ToxicsChanged,
    WentPastLab,
)
from wirefault.history.reader import with_ids
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.toxiproxy.toxics import DOWN
from wirefault.wiring.links import Link, Links, lab_links

_E = TypeVar("_E")
_EventT = TypeVar("_EventT", bound=Event, covariant=True)
CallerRecord = ToolTry | ModelCall
TryKey = tuple[int, str, str, int, int]  # attempt, link, fingerprint, call, try
SameKey = tuple[int, str, str]
Fate = Literal["executed", "refused", "maybe"]
FATES: tuple[Fate, ...] = ("executed", "maybe", "refused")
Executed = Literal["yes", "no", "maybe"]
_FATE_BY_TOOL_ANSWER: Mapping[ToolAnswer, Fate] = {"result": "executed", "error": "refused", "": "maybe"}
_EXECUTED: Mapping[Fate, Executed] = {"executed": "yes", "refused": "no", "maybe": "maybe"}
_TRACED = (Exchange, ToolTry, ModelCall, ToolCalled, AttemptArmed, AttemptEnded, ToxicsChanged, WentPastLab)
# Toxics that make a reply late or slow but keep none back: a caller that loses one has left on its own.
_ONLY_SLOW = frozenset({"slicer", "slow_close", "noop"})


def fate_of(status: int | None, tool_answer: ToolAnswer | None = None) -> Fate:
    """The fate of a request, by the upstream's answer. ``tool_answer`` is None but for calls of MCP tools.

    A request that was forwarded whole is *executed* if the upstream answered 2xx or 3xx, *refused* at 4xx and
    *maybe* at 5xx or without an answer, whatever its caller saw. Below 400 an MCP tool has its own answer: a
    result is *executed*, an error *refused*, an answer that the gateway could not read *maybe*.
    """
    if status is None or status >= 500:
        return "maybe"
    if status >= 400:
        return "refused"
    return "executed" if tool_answer is None else _FATE_BY_TOOL_ANSWER[tool_answer]


def record_key(record: Exchange | CallerRecord) -> TryKey:
    """The key that both records of one try share; it also sorts them in an order that every run of one seed
    repeats.

    The gateway counts as the caller does. Model requests have no fingerprint: their bodies are not hashed.
    """
    match record:
        case Exchange():
            fingerprint = "" if record.of_model else record.fingerprint
            return record.attempt, record.link, fingerprint, record.call, record.try_
        case ToolTry():
            return record.attempt, record.link, record.fingerprint, record.call, record.try_
        case ModelCall():
            return record.attempt, LAB_MODEL, "", record.ordinal, record.try_


@dataclass(frozen=True)
class Identified(Generic[_EventT]):
    """An event with its id."""

    id: str
    event: _EventT


@dataclass(frozen=True)
class Request:
    """One request, with the caller's record of it, the gateway's, or both."""

    ids: tuple[str, ...]  # of the records, the gateway's first
    exchange: Exchange | None  # the gateway's record
    caller_record: CallerRecord | None
    link: Link | None = None
    replies_are_lost: bool | None = False  # by a toxic that keeps every reply back; None if one may
    tls: Literal["", "fresh", "kept"] = ""  # known of the connection where the gateway has no record

    @property
    def attempt(self) -> int:
        return self._record.attempt

    @property
    def link_name(self) -> str:
        return self.exchange.link if self.exchange else record_key(self._record)[1]

    @cached_property
    def try_key(self) -> TryKey:
        """As the caller counts, if it keeps a record."""
        return record_key(self.caller_record or self._record)

    @property
    def error(self) -> str | None:
        """Why it failed, as the caller recorded it."""
        return self.caller_record.error if self.caller_record else None

    @property
    def ms(self) -> float:
        """How long it took the caller; without its record, how long the gateway had it."""
        return self.caller_record.ms if self.caller_record else self._record.ms

    @property
    def of_model(self) -> bool:
        return self.exchange.of_model if self.exchange else isinstance(self.caller_record, ModelCall)

    @property
    def direct(self) -> bool:
        """Whether it is the fallback that went past the proxies and the gateway."""
        return isinstance(self.caller_record, ToolTry) and self.caller_record.route == "direct"

    @property
    def start(self) -> float:
        """Seconds since the epoch, on the caller's clock where it keeps a record."""
        match self.caller_record:
            case ToolTry():
                return self.caller_record.start
            case ModelCall():
                return self.caller_record.t - self.caller_record.ms / 1000
        assert self.exchange is not None
        return self.exchange.start

    @property
    def end(self) -> float:
        match self.caller_record:
            case ToolTry():
                return self.caller_record.end
            case ModelCall():
                return self.caller_record.t
        assert self.exchange is not None
        return self.exchange.start + self.exchange.ms / 1000

    @property
    def name(self) -> str:
        """Method and path where they are known, else the name of the tool or of the MCP message."""
        if self.exchange is not None and self.exchange.message:
            return self.exchange.tool or self.exchange.message
        if self.exchange is not None:
            return f"{self.exchange.method} {self.exchange.target.partition('?')[0]}"
        record = self.caller_record
        tool = record.tool if isinstance(record, ToolTry) else "a request to the model"
        tools = self.link.tools if self.link else ()
        return next((f"{method} {path}" for name, method, path in tools if name == tool), tool)

    @property
    def method(self) -> str:
        if self.exchange is not None and self.exchange.tool:
            return self.exchange.method
        first = self.name.partition(" ")[0]
        return first if first.isupper() else ""

    @property
    def is_read(self) -> bool:
        is_message = self.exchange is not None and self.exchange.message != "" and not self.exchange.tool
        return is_message or self.method in ("GET", "HEAD", "OPTIONS")

    @property
    def is_write(self) -> bool:
        """Whether the wiring or the caller declares that it changes state."""
        exchange = self.exchange
        if exchange and (
            exchange.write
            or (self.link and self.link.is_write(exchange.method, exchange.target, exchange.tool))
        ):
            return True
        return isinstance(self.caller_record, ToolTry) and self.caller_record.write

    @property
    def same(self) -> SameKey | None:
        """Equal for requests of one attempt that ask for the same; None where that is unknown."""
        exchange = self.exchange
        if not self.of_model:
            record = exchange or self.caller_record
            assert isinstance(record, Exchange | ToolTry)
            return (self.attempt, self.link_name, record.fingerprint) if record.fingerprint else None
        if isinstance(self.caller_record, ModelCall):
            return self.attempt, self.link_name, f"request {self.caller_record.ordinal}"
        if exchange and exchange.identity == "baggage":
            return self.attempt, self.link_name, f"request {exchange.call}"
        if exchange and exchange.request_body and not exchange.request_cut:
            return self.attempt, self.link_name, exchange.request_body
        return None

    @property
    def idempotency_key(self) -> str | None:
        """The key by which the upstream recognises a repetition, empty if the request has none.

        None where the history does not have it.
        """
        if isinstance(self.caller_record, ToolTry):
            return self.caller_record.idempotency_key or ""
        return self.exchange.key if self.exchange and self.exchange.dialect else None

    @property
    def reply_lost(self) -> bool | None:
        """Whether the caller got no whole reply; None where that is unknown."""
        if self.caller_record is not None:
            return error_kind(self.caller_record.error) in ("timeout", "refused", "closed", "reset")
        assert self.exchange is not None
        if self.exchange.client_left or not self.exchange.reply_complete:
            return True
        return self.replies_are_lost

    @property
    def status(self) -> int | None:
        """The status that the caller got; None if it got no reply, or if that is unknown."""
        if self.reply_lost is not False:
            return None
        record = self.caller_record or self.exchange
        return record.status if record else None

    @property
    def succeeded(self) -> bool:
        """Whether the caller got a good reply."""
        failed = self.caller_record is not None and self.caller_record.error is not None
        return not failed and self.status is not None and self.status < 400

    @property
    def executed(self) -> Executed:
        """Whether the upstream did what the request asked, by its answer, whatever the caller saw of it."""
        exchange, record = self.exchange, self.caller_record
        if exchange is not None:
            if not exchange.forwarded:
                return "no"
            return _EXECUTED[fate_of(self.answered, exchange.tool_answer if exchange.tool else None)]
        if not isinstance(record, ToolTry) or record.route == "proxy":
            return "no"  # it did not reach the gateway, and so not the upstream
        if record.status is None or record.status >= 500:
            return "maybe"
        return "yes" if record.status < 400 else "no"

    @property
    def tool_failed(self) -> bool:
        """Whether the MCP tool itself answered with an error; only its text says why."""
        return self.exchange is not None and self.exchange.tool_answer == "error"

    @property
    def answered(self) -> int | None:
        """The upstream's status, whatever became of it; None if there was none, or if it is unknown."""
        if self.exchange is None or not self.exchange.forwarded:
            return None
        statuses = [fault.evidence.get("upstream_status") for fault in self.exchange.faults]
        return next((status for status in statuses if isinstance(status, int)), self.exchange.status)

    @property
    def injected(self) -> Sequence[FaultMet]:
        """The faults that the gateway injected into it."""
        return [fault for fault in self.exchange.faults if fault.injected] if self.exchange else []

    @property
    def fault_kinds(self) -> frozenset[str]:
        """The kinds of the faults that the gateway injected into it."""
        return frozenset(fault.kind for fault in self.injected)

    @property
    def _record(self) -> Exchange | CallerRecord:
        record = self.exchange or self.caller_record
        assert record is not None
        return record


@dataclass(frozen=True)
class _Run:
    """The run of the episodes. Its links are read when they are first needed, since that takes time."""

    started: RunStarted | None

    @cached_property
    def links(self) -> Links:
        return self.started.wired if self.started else lab_links()

    @cached_property
    def link_by_name(self) -> Mapping[str, Link]:
        return {link.name: link for link in self.links}


@dataclass(frozen=True)
class EpisodeTrace:
    """The records of one episode. Its requests are joined when they are first read."""

    episode: str
    records: Sequence[tuple[str, Event]]  # ids and events
    run: _Run = field(default_factory=lambda: _Run(None))
    selected: Sequence[Request] | None = None  # see `only`

    def only(self, requests: Sequence[Request]) -> EpisodeTrace:
        """The same trace with these of its requests alone."""
        return replace(self, selected=requests)

    @property
    def is_empty(self) -> bool:
        """Whether no attempt left anything in it."""
        return not any(isinstance(event, _TRACED) for event in self.events)

    @cached_property
    def events(self) -> Sequence[Event]:
        return [event for _, event in self.records]

    def all(self, kind: type[_E]) -> list[_E]:
        """The events of that kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def last(self, kind: type[_E]) -> _E | None:
        """The last event of that kind."""
        return next((event for event in reversed(self.events) if isinstance(event, kind)), None)

    @property
    def links(self) -> Links:
        return self.run.links

    @property
    def attempt_seconds(self) -> float:
        """How long the run lets an attempt last; 0 without a limit."""
        return float(self.run.started.settings.get("attempt_time", 0.0)) if self.run.started else 0.0

    @cached_property
    def keeps_record(self) -> bool:
        """Whether the subject records its own tries and calls."""
        return all(event.recorded for event in self.all(EpisodeStarted))

    @cached_property
    def calls(self) -> Sequence[Identified[ToolCalled]]:
        """The logical tool calls of a subject that records them, in order of time."""
        return sorted(self._identified(ToolCalled), key=lambda call: call.event.t)

    @cached_property
    def ends(self) -> Sequence[Identified[AttemptEnded]]:
        return self._identified(AttemptEnded)

    def end_of(self, attempt: int) -> Identified[AttemptEnded] | None:
        return next((end for end in self.ends if end.event.attempt == attempt), None)

    @cached_property
    def past_lab(self) -> Sequence[Identified[WentPastLab]]:
        """The connections that no link carried."""
        return self._identified(WentPastLab)

    @cached_property
    def armed(self) -> Sequence[AttemptArmed]:
        """By attempt."""
        return sorted(self.all(AttemptArmed), key=lambda armed: armed.attempt)

    @cached_property
    def exchanges(self) -> Sequence[Exchange]:
        """All that the gateway recorded, requests that named another attempt included."""
        return self.all(Exchange)

    @cached_property
    def connections(self) -> Sequence[ConnectionEnded]:
        return self.all(ConnectionEnded)

    @cached_property
    def hidden_links(self) -> frozenset[str]:
        """The links on which a toxic may have kept requests from the gateway."""
        return frozenset(t.link for armed in self.armed for t in armed.toxics if _may_hide(t))

    @cached_property
    def requests(self) -> Sequence[Request]:
        """By start, without those that named another attempt."""
        if self.selected is not None:
            return self.selected
        requests = []
        for request in self._joined:
            if request.exchange is None or request.exchange.identity != "mismatch":
                requests.append(request)
            elif request.caller_record is not None:
                requests.append(replace(request, exchange=None, ids=request.ids[1:]))
        return sorted(requests, key=lambda request: request.start)

    @cached_property
    def tries(self) -> Sequence[Request]:
        """The requests that the caller recorded, in an order that does not depend on time."""
        tries = [request for request in self._joined if request.caller_record is not None]
        return sorted(tries, key=lambda request: request.try_key)

    @cached_property
    def repeated(self) -> Sequence[Sequence[Request]]:
        """The requests of an attempt that ask for the same, if there are several."""
        groups: defaultdict[SameKey, list[Request]] = defaultdict(list)
        for request in self.requests:
            if request.same is not None:
                groups[request.same].append(request)
        return [group for group in groups.values() if len(group) > 1]

    def between(self, first: Request, second: Request) -> Iterator[Request]:
        """The requests of that attempt that began after the first had ended and before the second began."""
        begin, end = bisect_left(self._starts, first.end), bisect_left(self._starts, second.start)
        for request in self.requests[begin:end]:
            if request.attempt == first.attempt and request is not first:
                yield request

    @cached_property
    def _starts(self) -> Sequence[float]:
        return [request.start for request in self.requests]

    def _identified(self, kind: type[_EventT]) -> list[Identified[_EventT]]:
        return [Identified(id, event) for id, event in self.records if isinstance(event, kind)]

    @cached_property
    def _joined(self) -> Sequence[Request]:
        """Each exchange with the caller's record of it; then the tries that the gateway did not see."""
        exchanges = self._identified(Exchange)
        # the last exchange of a key is the one that the caller saw: clients resend on a stale connection
        last = {record_key(exchange.event): place for place, exchange in enumerate(exchanges)}
        callers: dict[int, Identified[CallerRecord]] = {}
        unseen: list[Identified[CallerRecord]] = []
        for id, event in self.records:
            if isinstance(event, ToolTry | ModelCall):
                direct = isinstance(event, ToolTry) and event.route == "direct"
                place = None if direct else last.pop(record_key(event), None)
                if place is None:
                    unseen.append(Identified(id, event))
                else:
                    callers[place] = Identified(id, event)
        seen = [self._request(exchange, callers.get(place)) for place, exchange in enumerate(exchanges)]
        return [*seen, *(self._request(None, record) for record in unseen)]

    def _request(
        self, exchange: Identified[Exchange] | None, record: Identified[CallerRecord] | None
    ) -> Request:
        request = Request(
            ids=tuple(each.id for each in (exchange, record) if each),
            exchange=exchange.event if exchange else None,
            caller_record=record.event if record else None,
        )
        name = request.link_name
        return replace(
            request,
            link=self.run.link_by_name.get(name),
            replies_are_lost=self._replies_are_lost(request.attempt, name),
            tls="fresh" if exchange is None and self._handshake_crossed(request) else "",
        )

    def _replies_are_lost(self, attempt: int, link: str) -> bool | None:
        """Whether a toxic keeps every reply on that link from its caller; None if it may be some of them."""
        toxics = [t for armed in self.armed if armed.attempt == attempt for t in armed.toxics]
        toxics = [toxic for toxic in toxics if toxic.link == link and toxic.kind not in _ONLY_SLOW]
        if not toxics:
            return False
        keeps_all = any(toxic.kind == "timeout" and toxic.stream == "downstream" for toxic in toxics)
        return True if keeps_all and not self._toxics_changed else None

    @cached_property
    def _toxics_changed(self) -> bool:
        """Whether the manager changed toxics within an attempt."""
        return any(change.action not in ("armed", "healed") for change in self.all(ToxicsChanged))

    def _handshake_crossed(self, request: Request) -> bool:
        """Whether a TLS connection was open on its link meanwhile: nothing else shows whether a request that
        never arrived was to go over TLS."""
        return any(
            connection.tls and connection.opened < request.end and connection.t > request.start
            for connection in self.connections
            if (connection.attempt, connection.link) == (request.attempt, request.link_name)
        )


def _may_hide(toxic: PlannedToxic) -> bool:
    """Whether a request may never come through it to the gateway."""
    ends_connections = toxic.kind in (DOWN, "reset_peer")
    return ends_connections or (toxic.stream == "upstream" and toxic.kind not in _ONLY_SLOW)


def episode_trace(events: Iterable[Event]) -> EpisodeTrace:
    """The trace of one episode's events, which need no ids."""
    events = list(events)
    started = next((event for event in events if isinstance(event, RunStarted)), None)
    episode = next((event.episode for event in events if isinstance(event, EpisodeStarted)), "")
    return EpisodeTrace(episode, [("", event) for event in events], _Run(started))


def traces(events: Iterable[Event]) -> list[EpisodeTrace]:
    """The traces of a run's episodes, in the order in which they come in the history."""
    return traces_of(with_ids(events))


def traces_of(identified: Iterable[tuple[str, Event]]) -> list[EpisodeTrace]:
    """The same of events that have their ids already."""
    started: RunStarted | None = None
    groups: defaultdict[str, list[tuple[str, Event]]] = defaultdict(list)
    for id, event in identified:
        episode = getattr(event, "episode", None)
        if isinstance(event, RunStarted):
            started = event
        elif episode or (episode == "" and not isinstance(event, Exchange)):
            groups[episode].append((id, event))
    run = _Run(started)
    return [EpisodeTrace(name, records, run) for name, records in groups.items()]
