"""The writes of an episode: which requests changed state, which of them are the same, how often each was
executed. Pure.

``wiring.write_requests`` says which requests are writes. A write that an MCP server made while it worked on a
tool call belongs to that call: it counts once, at the innermost link, and has the name of the call.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import parse_qsl

from wirefault.dialects.fate import Fate, fate_of
from wirefault.dialects.mcp import read_message
from wirefault.dialects.sameness import idempotency_field
from wirefault.history.events import AttemptEnded, WorldProbed, WorldRead
from wirefault.judging.probed import AddedRows
from wirefault.judging.requests import Request, answers_of
from wirefault.judging.trace import EpisodeTrace
from wirefault.wiring.write_requests import IDEMPOTENT_METHODS

_FATE_BY_CALLER: Mapping[str, Fate] = {"yes": "executed", "no": "refused", "maybe": "maybe"}


@dataclass(frozen=True)
class Write:
    """One request that changes state, or may."""

    request: Request  # at the innermost link
    seen: Request  # as the subject made it: the MCP tool call in which the request lies, else the request
    same: str  # equal for the same write of one attempt, and of other episodes
    fates: tuple[Fate, ...]  # of each delivery: several if a fault of the gateway repeated it

    @property
    def name(self) -> str:
        return self.seen.name

    @property
    def call(self) -> str:
        """The call as a wiring declares it."""
        return f"{self.request.name} of {self.request.link_name}"

    @property
    def fate(self) -> Fate:
        return next(fate for fate in ("executed", "maybe", "refused") if fate in self.fates)

    @property
    def key(self) -> str | None:
        """By which its upstream recognizes a repetition; empty without one, None if it is not recorded."""
        exchange, key = self.request.exchange, self.request.idempotency_key
        if key or exchange is None or exchange.request_cut:
            return key
        return idempotency_field(exchange.request_body, exchange.tool) or key

    @property
    def repeatable(self) -> bool:
        """Whether HTTP defines that a repetition changes nothing more."""
        return self.request.method in IDEMPOTENT_METHODS


def sent_at_once(equal: Sequence[Write]) -> bool:
    """Whether some of these writes, by start, were in progress at the same time: such calls are planned."""
    last = equal[0].seen
    for write in equal:
        over = last.client_left or write.seen.began_after(last)
        if write.seen is not last and (last.may_be_awaited or not over):
            return True
        last = max(last, write.seen, key=lambda request: request.end)
    return False


@dataclass(frozen=True)
class WriteCount:
    """How often the same write was executed in one attempt; the highest count of an episode's attempts.

    Writes with one idempotency key count once.
    """

    name: str
    call: str  # as a wiring declares it
    same: str
    executed: int
    maybe: int  # further ones that may have been executed
    ids: tuple[str, ...] = ()  # of the events that show it
    caused: int = 0  # findings about its repetition, see ``findings.writes``
    copies: int = 0  # of the executed ones, copies that the network made of one request


@dataclass(frozen=True)
class SentCount:
    """How often the same request was sent in an attempt, at least twice; the most of its attempts."""

    same: str
    sends: int
    ids: tuple[str, ...]  # of the events that show it
    caused: int = 0  # findings about its repetition, see ``findings.retries``


def sent_counts(trace: EpisodeTrace) -> tuple[SentCount, ...]:
    """The requests of the episode that were sent several times in an attempt, but those to models."""
    groups: defaultdict[tuple[str, int], list[Request]] = defaultdict(list)
    for request in trace.requests:
        if request.exchange is not None and not request.of_model:
            groups[trace.sames[id(request)][-1], request.attempt].append(request)
    counts: dict[str, SentCount] = {}
    for (same, _), group in groups.items():
        if len(group) > 1:
            known = counts.get(same, SentCount(same, 0, ()))
            ids = tuple(id for request in group for id in request.ids)
            counts[same] = SentCount(same, max(known.sends, len(group)), known.ids + ids)
    return tuple(counts.values())


def sent_as_often(
    counts: Iterable[SentCount], control: Sequence[Iterable[SentCount]]
) -> tuple[SentCount, ...]:
    """Those that every episode of the control sends as often, without a finding about it: nothing was sent
    again because of a fault.
    """
    calm = [{count.same: count.sends for count in episode if not count.caused} for episode in control]
    return tuple(c for c in counts if calm and all(c.sends <= sends.get(c.same, 0) for sends in calm))


def writes_in(trace: EpisodeTrace) -> list[Write]:
    """All writes of the episode that reached an upstream or may have, oldest first."""
    requests = [request for request in trace.requests if request.is_write]
    outer = {id(request): _outermost(request, requests) for request in requests}
    containing = {id(call) for call in outer.values() if call is not None}
    innermost = [request for request in requests if id(request) not in containing]
    sames = [trace.sames[id(request)][-1] for request in innermost]
    fates = _in_probed_world(trace, innermost, sames, _fates(trace, innermost))
    return [
        Write(
            request,
            outer[id(request)] or request,
            same,
            fate,
        )
        for request, same, fate in zip(innermost, sames, fates, strict=True)
    ]


def earlier_replies(trace: EpisodeTrace, end: AttemptEnded) -> list[str]:
    """The replies of a conversation before its answer, from the turn of the attempt's first write on.

    All of them without a write. A reply before it cannot report the write.
    """
    writes = [each.start for each in trace.requests if each.is_write and each.attempt == end.attempt]
    before = sum(at <= min(writes, default=0.0) for at in end.turn_ends or ())
    return end.earlier_answers[before:]


def write_counts(trace: EpisodeTrace) -> tuple[WriteCount, ...]:
    """The writes of the episode that are not repeatable by definition, with their counts."""
    attempts: defaultdict[tuple[str, int], list[Write]] = defaultdict(list)
    for write in writes_in(trace):
        if not write.repeatable:
            attempts[write.same, write.request.attempt].append(write)
    counts: dict[str, WriteCount] = {}
    for (same, _), group in attempts.items():
        count = _counted(same, group)
        known = counts.setdefault(same, count)
        most = max(known, count, key=lambda each: (each.executed, each.maybe))
        counts[same] = replace(most, ids=tuple(dict.fromkeys(known.ids + count.ids)))
    return tuple(counts.values())


def _counted(same: str, group: Sequence[Write]) -> WriteCount:
    alone: list[Write] = []
    by_key: dict[str, Write] = {}
    for write in group:
        key = write.key
        if not key:
            alone.append(write)
        elif key not in by_key or by_key[key].fate != "executed":
            by_key[key] = write
    fates = [fate for write in alone for fate in write.fates] + [write.fate for write in by_key.values()]
    first, number = group[0], Counter(fates)
    ids = tuple(dict.fromkeys(id for write in group for id in (*write.seen.ids, *write.request.ids)))
    copies = sum(max(write.fates.count("executed") - 1, 0) for write in alone)
    return WriteCount(first.name, first.call, same, number["executed"], number["maybe"], ids, copies=copies)


# writes within a tool call


def _outermost(request: Request, writes: Iterable[Request]) -> Request | None:
    """The tool call of an MCP link that was open when the request came; None for a request of the subject."""
    calls = (
        call
        for call in writes
        if call is not request
        and call.exchange is not None
        and call.exchange.tool
        and (call.attempt == request.attempt and call.link_name != request.link_name)
        and call.start <= request.start <= _served_until(call)
        and (request.exchange is None or not request.exchange.tool or _served_until(call) >= request.end)
    )
    return min(calls, key=lambda call: call.start, default=None)


def _served_until(call: Request) -> float:
    """The end of the server's work, which may be later than its caller has left."""
    return call.exchange.start + call.exchange.ms / 1000 if call.exchange else call.end


# what became of them


def _fates(trace: EpisodeTrace, requests: Sequence[Request]) -> list[tuple[Fate, ...]]:
    """The fates of each request's deliveries: by the upstream's answers, else by the world that was read."""
    fates = [tuple(_by_answers(request)) for request in requests]
    read = trace.last(WorldRead)
    if read is None or read.error is not None:
        return fates
    return [
        tuple(fate if fate != "maybe" else _in_world(read, request, requests) for fate in deliveries)
        for request, deliveries in zip(requests, fates, strict=True)
    ]


def _in_probed_world(
    trace: EpisodeTrace,
    requests: Sequence[Request],
    sames: Sequence[str],
    fates: list[tuple[Fate, ...]],
) -> list[tuple[Fate, ...]]:
    """The fates, as often *executed* as rows of a probed world show each write.

    Where the world does not show it, they stay as they are: without a row that has its contents, if a row may
    be of several writes, if there are more rows than deliveries, and in an episode with further attempts,
    whose writes the world does not tell apart.
    """
    added = AddedRows.of(trace.all(WorldProbed))
    if added is None or len(trace.armed) > 1:
        return fates
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for place, (request, same) in enumerate(zip(requests, sames, strict=True)):
        if request.method not in IDEMPOTENT_METHODS and set(fates[place]) != {"refused"}:
            groups[same].append(place)
    bodies = {same: _contents(requests[places[0]]) for same, places in groups.items()}
    rows = {same: added.matching(body) for same, body in bodies.items()}
    shared = Counter(row for matched in rows.values() for row in matched)
    by_world = list(fates)
    for same, places in groups.items():
        deliveries = [fate for place in places for fate in fates[place]]
        possible = len(deliveries) - deliveries.count("refused")
        matched = rows[same]
        if not 0 < len(matched) <= possible or any(shared[row] > 1 for row in matched):
            continue
        if len(matched) < possible and any(added.may_be_sum(row, bodies[same]) for row in matched):
            continue
        left = len(matched)
        # those that the upstream answered well come first
        for place in sorted(places, key=lambda place: "executed" not in fates[place]):
            new: list[Fate] = []
            for fate in fates[place]:
                new.append("executed" if fate != "refused" and left > 0 else "refused")
                left -= new[-1] == "executed"
            by_world[place] = tuple(new)
    return by_world


def _contents(request: Request) -> Any:
    """What a request asks to be written: its body as JSON or as a form, the arguments of a tool."""
    exchange = request.exchange
    if exchange is None or exchange.request_cut or not exchange.request_body:
        return None
    if exchange.tool:
        message = read_message(exchange.request_body.encode())
        return message.arguments if message else None
    try:
        return json.loads(exchange.request_body)
    except (ValueError, RecursionError):
        return dict(parse_qsl(exchange.request_body))


def _by_answers(request: Request) -> Iterator[Fate]:
    exchange = request.exchange
    answers = list(answers_of(exchange)) if exchange is not None and exchange.forwarded else []
    if exchange is None or len(answers) < 2:
        yield _FATE_BY_CALLER[request.executed]
        return
    for status, tool_answer in answers:
        yield fate_of(status, tool_answer if exchange.tool else None)


def _in_world(read: WorldRead, request: Request, requests: Sequence[Request]) -> Fate:
    """Whether the lab's service recorded a side effect of the request; ``maybe`` if that is not known."""
    link = request.link
    if link is None or not link.effects:
        return "maybe"
    effects = [effect for effect in read.effects if effect.get("service") == link.service]
    key = request.idempotency_key
    if key:
        return "executed" if any(effect.get("idempotency_key") == key for effect in effects) else "refused"
    without_key = sum(not effect.get("idempotency_key") for effect in effects)
    possible = [r for r in requests if r.link is link and not r.idempotency_key and r.executed != "no"]
    if without_key >= len(possible):
        return "executed"
    return "maybe" if without_key else "refused"
