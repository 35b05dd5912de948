"""The world axis by the wire: the declared writes that upstreams executed. Pure.

The precedence is the same as for the lab's own world, with one exception: a write that was certainly executed
too often is ``duplicated`` even if it is unknown whether other writes were executed.

Without an oracle, a repetition is not a ``duplicate``, since it may be intended. After a failure it is a
finding, and the control of an experiment decides.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import parse_qsl

from wirefault.dialects.fate import FATES, Fate, fate_of
from wirefault.dialects.mcp import read_message
from wirefault.history.events import Exchange, WentPastLab
from wirefault.history.judged_events import World
from wirefault.judging.oracle.expect import ExpectedRequest, Oracle
from wirefault.judging.oracle.matching import Match, Pairing, match_json, paired
from wirefault.judging.oracle.world import WorldJudgement, times_in_words
from wirefault.judging.requests import Request, answers_of
from wirefault.wiring.write_requests import IDEMPOTENT_METHODS


@dataclass(frozen=True)
class WireWrite:
    """One delivery of a write, and its result at the upstream."""

    exchange: Exchange
    fate: Fate
    status: int | None  # the upstream's

    @property
    def path(self) -> str:
        return self.exchange.target.partition("?")[0]

    @property
    def query(self) -> Mapping[str, str]:
        return dict(parse_qsl(self.exchange.target.partition("?")[2], keep_blank_values=True))

    @property
    def body_is_known(self) -> bool:
        return self.exchange.request_body is not None and not self.exchange.request_cut

    @property
    def body(self) -> Any:
        """The body as JSON or as a form, else its text; for an MCP tool, its arguments."""
        text = self.exchange.request_body or ""
        if self.exchange.tool:
            message = read_message(text.encode())
            return message.arguments if message is not None else {}
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return dict(parse_qsl(text)) or text

    @property
    def name(self) -> str:
        return _call_of(self.exchange)

    @property
    def refusal(self) -> str:
        """Describe the refusal: a status, or an error of the tool."""
        return "an error of the tool" if self.status is not None and self.status < 400 else str(self.status)

    @property
    def row(self) -> dict[str, Any]:
        """The time of the write, in the form of the lab's own side effects."""
        return {"at": self.exchange.start, "idempotency_key": None}


def deliveries(exchange: Exchange) -> Iterator[WireWrite]:
    """Each delivery of a write to its upstream; several if a fault of the gateway repeated it."""
    if not exchange.forwarded:
        return
    for status, tool_answer in answers_of(exchange):
        yield WireWrite(exchange, fate_of(status, tool_answer if exchange.tool else None), status)


def world_writes(exchanges: Iterable[Exchange]) -> list[WireWrite]:
    """The writes that count in the world, oldest first.

    Writes with the same key count once, and so do repeated PUTs and DELETEs, which change nothing more. An
    executed write is preferred.
    """
    alone: list[WireWrite] = []
    shared: dict[tuple[str, ...], WireWrite] = {}
    for exchange in sorted(exchanges, key=lambda exchange: exchange.start):
        for write in deliveries(exchange):
            identity = _identity(exchange)
            if identity is None:
                alone.append(write)
            elif identity not in shared or FATES.index(write.fate) < FATES.index(shared[identity].fate):
                shared[identity] = write
    return sorted([*alone, *shared.values()], key=lambda write: write.exchange.start)


def _identity(exchange: Exchange) -> tuple[str, ...] | None:
    """The identity of a write and its repetitions; None if each delivery counts."""
    call = (exchange.link, exchange.method, exchange.target.partition("?")[0], exchange.tool)
    if exchange.key:
        return (*call, exchange.key)
    if exchange.method in IDEMPOTENT_METHODS:
        return (*call, "", exchange.fingerprint)
    return None


def judge_requests(
    oracle: Oracle, requests: Iterable[Request], settled: bool, past_lab: Iterable[WentPastLab] = ()
) -> WorldJudgement:
    """``settled``: no request was unanswered when the episode ended.

    ``past_lab``: connections whose requests the lab did not see. They may have carried missing writes, and
    on the link of an expected write further ones.
    """
    if not settled:
        return WorldJudgement("unknown", "held requests had not settled")
    world = _judge_seen(oracle, requests)
    links = {request.link for request in oracle.requests or ()}
    for past in past_lab:
        if world.axis == "lost" or (past.link in links and world.axis != "duplicated"):
            return WorldJudgement("unknown", f"writes may have gone unseen: {past.text}")
    return world


def _judge_seen(oracle: Oracle, requests: Iterable[Request]) -> WorldJudgement:
    """Judge the requests that the lab saw. The oracle's calls are writes, and so are the other writes of the
    links that it names or whose writes the wiring declares.
    """
    wanted = oracle.requests or ()
    named = {request.link for request in wanted}
    counted: list[Exchange] = []
    elsewhere: list[Exchange] = []
    for request in requests:
        exchange = request.exchange
        if exchange is None or exchange.of_model:
            continue
        if any(is_call(each, exchange) for each in wanted):
            counted.append(exchange)
        elif request.is_write:
            (counted if exchange.link in named or exchange.write else elsewhere).append(exchange)
    world = _judge_writes(oracle, counted)
    if world.axis == "lost":
        called = {exchange.link for exchange in counted}
        for each in wanted:
            alike = (
                e
                for e in elsewhere
                if is_call(each.model_copy(update={"link": e.link}), e) and _may_be_done(e)
            )
            if each.link not in called and (other := next(alike, None)):
                return WorldJudgement("unknown", f"{_call_of(other)} came, and none to {each.link}")
    return world


def _may_be_done(exchange: Exchange) -> bool:
    return any(write.fate != "refused" for write in deliveries(exchange))


def _call_of(exchange: Exchange) -> str:
    call = exchange.tool or f"{exchange.method} {exchange.target.partition('?')[0]}"
    return f"{call} of {exchange.link}"


def _judge_writes(oracle: Oracle, exchanges: Iterable[Exchange]) -> WorldJudgement:
    expected = [request for request in oracle.requests or () for _ in range(request.times)]
    writes = world_writes(exchanges)
    unread = next((write for write in writes for request in expected if _is_unreadable(request, write)), None)
    if unread is not None:
        return WorldJudgement("unknown", f"{unread.name}: the history does not have the whole body")
    executed = [write for write in writes if write.fate == "executed"]
    pairing = paired(
        expected,
        executed,
        _match,
        lambda request, write: is_call(request, write.exchange),
        others_allowed=oracle.others == "allowed",
    )
    if oracle.others == "allowed":
        pairing = replace(pairing, extra=[])
        writes = [write for write in writes if any(_fits(request, write) for request in expected)]
    axis, why = _axis(expected, writes, executed, pairing)
    repeated = tuple(w.row for w in executed if any(_fits(request, w) for request in expected))
    return WorldJudgement(
        axis,
        why,
        frozenset({"unasked"}) if pairing.extra else frozenset(),
        repeated=repeated if pairing.again else (),
    )


def _axis(
    expected: Sequence[ExpectedRequest],
    writes: Sequence[WireWrite],
    executed: Sequence[WireWrite],
    pairing: Pairing[ExpectedRequest, WireWrite],
) -> tuple[World, str]:
    if pairing.again:
        return "duplicated", _how_often(expected, executed, pairing.again)
    maybe = [write for write in writes if write.fate == "maybe"]
    if maybe:
        return "unknown", f"unknown whether it was executed: {_named(maybe)}"
    if pairing.unread:
        return "unknown", f"the fields of {_named(w for _, w in pairing.unreadable)} cannot be read"
    if pairing.wrong:
        return "wrong", f"{_named(write for _, write in pairing.wrong)} not as asked"
    if pairing.missing:
        refused = [f"{write.name} with {write.refusal}" for write in writes if write.fate == "refused"]
        why = f" (refused: {', '.join(dict.fromkeys(refused))})" if refused else ""
        return "lost", f"{', '.join(request.name for request in pairing.missing)} missing{why}"
    if pairing.extra:
        return "extra", f"{_named(pairing.extra)} not asked for"
    return ("as_asked" if expected else "not_applicable"), ""


def _how_often(
    expected: Sequence[ExpectedRequest], executed: Sequence[WireWrite], again: Sequence[WireWrite]
) -> str:
    """``POST /orders of shop executed 2 times, asked for once``."""
    names = dict.fromkeys(write.name for write in again)
    done = Counter(write.name for write in executed if any(_fits(request, write) for request in expected))
    wanted = {
        write.name: sum(is_call(request, write.exchange) for request in expected)
        for write in executed
        if write.name in names
    }
    return "; ".join(
        f"{name} executed {times_in_words(done[name])}, asked for {times_in_words(wanted[name])}"
        for name in names
    )


def is_call(request: ExpectedRequest, exchange: Exchange) -> bool:
    """Whether the exchange is that call, with any query and body."""
    if request.tool:
        return exchange.link == request.link and fnmatchcase(exchange.tool, request.tool)
    same = (exchange.link, exchange.method) == (request.link, request.method)
    return same and fnmatchcase(exchange.target.partition("?")[0], request.path)


def _fits(request: ExpectedRequest, write: WireWrite) -> bool:
    return _match(request, write) == "right"


def _match(request: ExpectedRequest, write: WireWrite) -> Match:
    if not is_call(request, write.exchange):
        return "wrong"
    query = match_json(request.query, write.query, literal=True)
    body = "right" if request.body is None else match_json(request.body, write.body)
    return "wrong" if "wrong" in (query, body) else "unreadable" if "unreadable" in (query, body) else "right"


def _is_unreadable(request: ExpectedRequest, write: WireWrite) -> bool:
    return (
        write.fate != "refused"
        and request.body is not None
        and is_call(request, write.exchange)
        and not write.body_is_known
    )


def _named(writes: Iterable[WireWrite]) -> str:
    """``POST /orders of shop (2 times), DELETE /orders/7 of shop``."""
    counts = Counter(write.name for write in writes)
    return ", ".join(name if n == 1 else f"{name} ({times_in_words(n)})" for name, n in counts.items())
