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
from wirefault.dialects.sameness import Wanted, idempotency_field, same_digest
from wirefault.history.events import AttemptEnded, EpisodeStarted, Exchange, ToolTry, WorldProbed, WorldRead
from wirefault.judging.probed import AddedRows
from wirefault.judging.requests import Request, answers_of
from wirefault.judging.trace import EpisodeTrace
from wirefault.wiring.links import Link
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
    sames = same_requests(trace)
    for request in trace.requests:
        if request.exchange is not None and not request.of_model:
            groups[sames[id(request)], request.attempt].append(request)
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
    sames = _sames(trace, innermost)
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


# the same write


def _sames(trace: EpisodeTrace, requests: Sequence[Request]) -> list[str]:
    """For each request a text that is equal for the same ones."""
    received = _Received(trace.exchanges, [start.prompt for start in trace.all(EpisodeStarted)])
    return [received.same_request(request) for request in requests]


def same_requests(trace: EpisodeTrace) -> dict[int, str]:
    """For the ``id`` of each request a text that is equal for the same ones, whatever their generated ids and
    idempotency keys.
    """
    return dict(zip(map(id, trace.requests), _sames(trace, trace.requests), strict=True))


def rows_of_same(trace: EpisodeTrace) -> list[list[Request]]:
    """All requests in rows for the same, of which each may repeat the one before."""
    groups: defaultdict[tuple[int, str, str], list[Request]] = defaultdict(list)
    sames = same_requests(trace)
    for request in trace.requests:
        groups[request.attempt, request.link_name, sames[id(request)]].append(request)
    return [row for group in groups.values() for row in trace.rows(group)]


class _Received:
    """The ids that an episode's subject received, and the requests that were the same so far."""

    def __init__(self, exchanges: Iterable[Exchange], prompts: Iterable[str]) -> None:
        self._prompts = "\n".join(prompts)
        self._replies = [
            (e.start + e.ms / 1000, e.reply_body, _has_whole_reply(e)) for e in exchanges if not e.of_model
        ]
        self._by_fingerprint: dict[tuple[int, str, str], str] = {}

    def same_request(self, request: Request) -> str:
        exchange = request.exchange
        if request.of_model and request.same and not (exchange and exchange.request_body):
            return str(request.same)  # numbered by the subject, or by the gateway
        if exchange is not None:
            return self._same(exchange, request.link)
        return self._same_fingerprint(request) or request.ids[0]

    def _same(self, exchange: Exchange, link: Link | None) -> str:
        key = exchange.attempt, f"{exchange.link} {exchange.operation}".rstrip(), exchange.fingerprint
        known = self._by_fingerprint.get(key) if exchange.fingerprint else None
        if known is not None:
            return known
        whole = exchange.request_body is not None and not exchange.request_cut and exchange.request_complete
        wanted = Wanted(
            _server(exchange.link, link),
            f"{exchange.method} {exchange.operation}".rstrip(),
            exchange.target,
            exchange.tool,
            exchange.request_body if whole else None,
            exchange.start,
            link.key if link else "",
            all_received=all(whole for end, _, whole in self._replies if end <= exchange.start),
        )
        bodies = [body for end, body, _ in self._replies if body and end <= exchange.start]
        received = "\n".join([self._prompts, *bodies])
        same = same_digest(wanted, exchange.fingerprint or str(exchange.start), received.__contains__)
        self._by_fingerprint[key] = same
        return same

    def _same_fingerprint(self, request: Request) -> str:
        """For a request that the gateway did not see; empty without a fingerprint."""
        record = request.caller_record
        if not isinstance(record, ToolTry) or not record.fingerprint:
            return ""
        key = request.attempt, record.link, record.fingerprint
        wanted = Wanted(record.link, request.method, "", "", None, request.start)
        return self._by_fingerprint.setdefault(key, same_digest(wanted, record.fingerprint, "".__contains__))


def _has_whole_reply(exchange: Exchange) -> bool:
    """Whether the history has all of the reply that the client received."""
    if exchange.reply_body is None:
        return exchange.status in (None, 204, 304)
    return not (exchange.reply_cut and exchange.reply_complete)


def _server(name: str, link: Link | None) -> str:
    """Two links may lead to one server, except the lab's, those on standard input, and functions."""
    if link is None or link.is_of_lab or link.is_stdio or link.is_in_process:
        return name
    return link.upstream or name


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
