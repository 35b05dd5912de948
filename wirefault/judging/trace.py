"""The join of the caller's records and the gateway's: the requests of an episode from both sides. Pure.

Evidence, oracles, findings, measures of recovery and reports all read this join.
"""

from __future__ import annotations

import shlex
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

from wirefault.dialects.mcp import LIST
from wirefault.history.events import (
    AttemptArmed,
    AttemptEnded,
    AttemptHealed,
    ConnectionEnded,
    EpisodeStarted,
    Event,
    Exchange,
    ModelCall,
    RunStarted,
    SubjectKilled,
    ToolCalled,
    ToolTry,
    ToxicsChanged,
    WentPastLab,
)
from wirefault.history.reader import bare_id, with_ids
from wirefault.judging.on_replies import ONLY_SLOW, ToxicsOnReplies
from wirefault.judging.requests import (
    CallerRecord,
    Request,
    SameKey,
    asks_model_again,
    record_key,
    with_given_up,
    with_inner,
)
from wirefault.judging.same import SameRequests
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.toxiproxy.toxics import DOWN
from wirefault.wiring.links import Links, lab_links
from wirefault.wiring.write_requests import read_only_tools

_E = TypeVar("_E")
_EventT = TypeVar("_EventT", bound=Event, covariant=True)
_TRACED = (Exchange, ToolTry, ModelCall, ToolCalled, AttemptArmed, AttemptEnded, ToxicsChanged, WentPastLab)
# A new connection may wait that long for its first request. A client that waits longer opened it in advance.
_OPENING_S = 1.0
# The ingress's clock and the gateway's, and how late either notes that a client has left.
_OPENED_TOLERANCE_S = 0.001
_LEFT_TOLERANCE_S = 0.25


@dataclass(frozen=True)
class Identified(Generic[_EventT]):
    """An event with its id."""

    id: str
    event: _EventT


@dataclass(frozen=True)
class EpisodeTrace:
    """The records of one episode. Its requests are joined when they are first read."""

    episode: str
    records: Sequence[tuple[str, Event]]  # ids and events
    run: RunStarted | None = None
    selected: Sequence[Request] | None = None  # see `only`

    def only(self, requests: Sequence[Request]) -> EpisodeTrace:
        """The same trace with these of its requests alone."""
        return replace(self, selected=requests)

    def is_command_line(self, prompt: str) -> bool:
        """Whether the prompt is only the command of a subject that takes no prompt."""
        if self.run is None:
            return False
        arguments = self.run.wiring_arguments
        words = arguments[arguments.index("--") + 1 :] if "--" in arguments else []
        if words and shlex.join(words) == prompt:
            return True
        with suppress(ValueError):  # an unclosed quotation
            return self.run.subject == f"command: {' '.join(shlex.split(prompt))}"
        return False

    @property
    def is_empty(self) -> bool:
        """Whether no attempt left anything."""
        return not any(isinstance(event, _TRACED) for event in self.events)

    @cached_property
    def events(self) -> Sequence[Event]:
        return [event for _, event in self.records]

    def all(self, kind: type[_EventT]) -> list[_EventT]:
        """The events of that kind."""
        return [each.event for each in self._identified(kind)]

    def last(self, kind: type[_E]) -> _E | None:
        """The last event of that kind."""
        return next((event for event in reversed(self.events) if isinstance(event, kind)), None)

    @property
    def links(self) -> Links:
        return self.run.wired if self.run else lab_links()

    @property
    def attempt_seconds(self) -> float:
        """How long the run lets an attempt last; 0 without a limit."""
        return float(self.run.settings.get("attempt_time", 0.0)) if self.run else 0.0

    @property
    def has_oracle(self) -> bool:
        return any(started.expect is not None for started in self.all(EpisodeStarted))

    @property
    def seconds(self) -> float:
        return sum(end.ms for end in self.all(AttemptEnded)) / 1000

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

    @cached_property
    def kills(self) -> Sequence[Identified[SubjectKilled]]:
        """The kills of the subject by the lab."""
        return self._identified(SubjectKilled)

    @cached_property
    def attempts(self) -> Sequence[int]:
        """The attempts that were made, in their order."""
        kinds = AttemptArmed | AttemptEnded | AttemptHealed | ToolTry
        return sorted({event.attempt for event in self.events if isinstance(event, kinds)})

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
        """By start."""
        if self.selected is not None:
            return self.selected
        return with_given_up(sorted(self._joined, key=lambda request: request.start))

    def requests_in(self, evidence: Iterable[str]) -> list[Request]:
        """The requests with an event in the evidence, whose ids may begin with the run's name, by start."""
        ids = set(map(bare_id, evidence))
        return [request for request in self.requests if not ids.isdisjoint(map(bare_id, request.ids))]

    def first_request_in(self, evidence: Iterable[str]) -> Request | None:
        """The request of the first event in the evidence that is of one."""
        return next((request for id in evidence for request in self.requests_in([id])), None)

    @cached_property
    def tries(self) -> Sequence[Request]:
        """The requests that the caller recorded, in an order that does not depend on time."""
        tries = [request for request in self._joined if request.caller_record is not None]
        return sorted(tries, key=lambda request: request.try_key)

    @cached_property
    def sames(self) -> Mapping[int, SameKey]:
        """For the ``id`` of each request a key that is equal for all of its attempt that ask for the same."""
        same = SameRequests(self.exchanges, [start.prompt for start in self.all(EpisodeStarted)])
        texts = zip(self.requests, same.texts(self.requests), strict=True)
        return {id(each): (each.attempt, each.link_name, text) for each, text in texts}

    @cached_property
    def equal(self) -> Sequence[Sequence[Request]]:
        """The requests of an attempt that ask for the same, in groups of one or more."""
        groups: defaultdict[SameKey, list[Request]] = defaultdict(list)
        for request in self.requests:
            groups[self.sames[id(request)]].append(request)
        return list(groups.values())

    @cached_property
    def rows(self) -> Sequence[Sequence[Request]]:
        """All requests in rows for the same, of which each may repeat the one before."""
        return [row for group in self.equal for row in self._rows(group)]

    @cached_property
    def repeated(self) -> Sequence[Sequence[Request]]:
        """The rows with at least one request that was sent again."""
        return [row for row in self.rows if len(row) > 1]

    def _rows(self, requests: Iterable[Request]) -> list[list[Request]]:
        """Split equal requests, by start, into rows of which each may repeat the one before.

        A request follows the last one that failed, if it may repeat several.
        """
        rows: list[list[Request]] = []
        for request in requests:
            before = [row for row in rows if self.under_toxic(request) or self.may_repeat(row[-1], request)]
            if before:
                max(before, key=lambda row: (not row[-1].succeeded, row[-1].end)).append(request)
            else:
                rows.append([request])
        return rows

    def may_repeat(self, first: Request, again: Request) -> bool:
        """Whether the caller may have sent the second because of how the first had ended.

        Not if the second began before that, or if it is the first request of a connection that was opened
        before: its caller wanted to send it anyway. Under a toxic the gateway does not know when the caller
        learned of the end.
        """
        if not again.began_after(first):
            return False
        opened = self._opened(again)
        tolerance = _LEFT_TOLERANCE_S if first.client_gave_up else _OPENED_TOLERANCE_S
        if opened is None or opened >= first.end - tolerance or self.under_toxic(again):
            return True
        return again.start - opened > _OPENING_S

    def asks_model_again(self, refused: Request, later: Request) -> bool:
        """Whether a model that refused the request for now may be asked again because of that, with whatever
        prompt.
        """
        exchanges = refused.exchange, later.exchange
        if exchanges[0] is None or exchanges[1] is None or not asks_model_again(exchanges[0], exchanges[1]):
            return False
        return self.may_repeat(refused, later)

    def _opened(self, request: Request) -> float | None:
        """When its connection was opened at the latest; None if it is not the first request of that.

        The ingress sees a connection before the gateway does. Which of its connections carried the request is
        not recorded: the latest one counts.
        """
        exchange = request.exchange
        if exchange is None or exchange.opened_ms is None:
            return None
        at_gateway = exchange.start - exchange.opened_ms / 1000
        if request.is_of_function:
            return at_gateway  # when its call began, whatever connection carried it
        connections = self.connections_of(exchange.attempt, exchange.link)
        until = bisect_right(connections, at_gateway + _OPENED_TOLERANCE_S, key=lambda each: each.opened)
        carriers = (each.opened for each in reversed(connections[:until]) if each.t >= exchange.start)
        return min(at_gateway, next(carriers, at_gateway))

    def connections_of(self, attempt: int, link: str) -> Sequence[ConnectionEnded]:
        """The connections that the ingress saw on that link in that attempt, by their opening."""
        return self._connections_by_link.get((attempt, link), [])

    @cached_property
    def _connections_by_link(self) -> Mapping[tuple[int, str], Sequence[ConnectionEnded]]:
        connections: defaultdict[tuple[int, str], list[ConnectionEnded]] = defaultdict(list)
        for connection in sorted(self.connections, key=lambda each: each.opened):
            if not connection.tunnelled:
                connections[connection.attempt, connection.link].append(connection)
        return connections

    def under_toxic(self, request: Request) -> bool:
        """Whether the request's attempt began with a toxic on its link."""
        return (request.attempt, request.link_name) in self.toxic_links

    @cached_property
    def toxic_links(self) -> frozenset[tuple[int, str]]:
        """The links with a toxic, each with its attempt."""
        return frozenset((armed.attempt, toxic.link) for armed in self.armed for toxic in armed.toxics)

    def between(self, first: Request, second: Request) -> Iterator[Request]:
        """The requests of that attempt that began after the first had ended and before the second began.

        A client that gives up without closing anything may send others before it sends the first again.
        """
        after = first.end if first.given_up is None else first.start
        begin, end = bisect_left(self._starts, after), bisect_left(self._starts, second.start)
        for request in self.requests[begin:end]:
            if request.attempt == first.attempt and request is not first:
                yield request

    @cached_property
    def _starts(self) -> Sequence[float]:
        return [request.start for request in self.requests]

    def _identified(self, kind: type[_EventT]) -> list[Identified[_EventT]]:
        return self._by_kind.get(kind, [])

    @cached_property
    def _by_kind(self) -> Mapping[type, list[Identified[Any]]]:
        """The events of each kind, with their ids."""
        kinds: defaultdict[type, list[Identified[Any]]] = defaultdict(list)
        for id, event in self.records:
            kinds[type(event)].append(Identified(id, event))
        return kinds

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
        return with_inner([*seen, *(self._request(None, record) for record in unseen)])

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
            link=self.links.get(name),
            replies_are_lost=self.on_replies.keep_all(request.attempt, name),
            never_arrived=id(request.exchange) in self.on_replies.kept_back,
            is_slow=self.on_replies.make_slow(request),
            tls="fresh" if exchange is None and self._handshake_crossed(request) else "",
            read_only_tools=self._read_only_tools.get(name, frozenset()),
        )

    @cached_property
    def on_replies(self) -> ToxicsOnReplies:
        """Its toxics, as far as they kept back, cut or delayed replies."""
        changed = any(change.action not in ("armed", "healed") for change in self.all(ToxicsChanged))
        return ToxicsOnReplies(self.armed, self.exchanges, self.connections_of, changed)

    @cached_property
    def _read_only_tools(self) -> Mapping[str, frozenset[str]]:
        """By link: the tools that its MCP server annotates as read-only."""
        tools: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
        for exchange in self.exchanges:
            if exchange.message == LIST:
                tools[exchange.link] |= read_only_tools(_tool_list(exchange))
        return tools

    def _handshake_crossed(self, request: Request) -> bool:
        """Whether a TLS connection was open on its link meanwhile: nothing else shows whether a request that
        never arrived was to go over TLS."""
        return any(
            connection.tls and connection.opened < request.end and connection.t > request.start
            for connection in self.connections
            if (connection.attempt, connection.link) == (request.attempt, request.link_name)
        )


def _tool_list(exchange: Exchange) -> str:
    """Return a list of tools as the MCP server sent it, before any fault; empty if it is not kept whole."""
    faulted = exchange.faulted_reply
    if faulted is not None and faulted.upstream_reply is not None:
        return "" if faulted.upstream_reply_cut else faulted.upstream_reply
    return "" if exchange.reply_cut else exchange.reply_body or ""


def _may_hide(toxic: PlannedToxic) -> bool:
    """Whether a request may never come through it to the gateway."""
    ends_connections = toxic.kind in (DOWN, "reset_peer", "cut_after", "unaccepted", "unresolved")
    return ends_connections or (toxic.stream == "upstream" and toxic.kind not in ONLY_SLOW)


def episode_trace(events: Iterable[Event]) -> EpisodeTrace:
    """The trace of one episode's events, where they are all events of the run."""
    events = list(events)
    started = next((event for event in events if isinstance(event, RunStarted)), None)
    episode = next((event.episode for event in events if isinstance(event, EpisodeStarted)), "")
    return EpisodeTrace(episode, list(with_ids(events)), started)


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
    return [EpisodeTrace(name, records, started) for name, records in groups.items()]
