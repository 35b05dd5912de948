"""The world axis where the wire is the world: the writes that upstreams executed, and those asked for. Pure.

Precedence as for the lab's own world, but that what is proven to be done too often is ``duplicated`` also
where it is unknown whether other writes were executed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from wirefault.history.events import Exchange
from wirefault.judging.oracle.expect import Oracle
from wirefault.judging.oracle.expected_request import ExpectedRequest
from wirefault.judging.oracle.json_match import json_matches
from wirefault.judging.oracle.pairing import Pairing, paired
from wirefault.judging.oracle.wire_writes import WireWrite, world_writes
from wirefault.judging.oracle.world import World, WorldJudgement, times_in_words


def judge_requests(oracle: Oracle, exchanges: Iterable[Exchange], settled: bool) -> WorldJudgement:
    """``settled``: no request was unanswered when the episode ended."""
    if not settled:
        return WorldJudgement("unknown", "held requests had not settled")
    asked = [request for request in oracle.requests or () for _ in range(request.times)]
    writes = world_writes(exchanges)
    unread = next((write for write in writes for request in asked if _cannot_be_read(request, write)), None)
    if unread is not None:
        return WorldJudgement("unknown", f"{unread.name}: its body was not kept whole")
    executed = [write for write in writes if write.fate == "executed"]
    pairing = paired(asked, executed, _fits, _is_call)
    if oracle.others == "allowed":
        pairing = replace(pairing, extra=[])
        writes = [write for write in writes if any(_fits(request, write) for request in asked)]
    axis, why = _axis(asked, writes, executed, pairing)
    repeated = tuple(w.row for w in executed if any(_fits(request, w) for request in asked))
    return WorldJudgement(
        axis,
        why,
        frozenset({"unasked"}) if pairing.extra else frozenset(),
        repeated=repeated if pairing.again else (),
    )


def _axis(
    asked: Sequence[ExpectedRequest],
    writes: Sequence[WireWrite],
    executed: Sequence[WireWrite],
    pairing: Pairing[ExpectedRequest, WireWrite],
) -> tuple[World, str]:
    if pairing.again:
        return "duplicated", _how_often(asked, executed, pairing.again)
    maybe = [write for write in writes if write.fate == "maybe"]
    if maybe:
        return "unknown", f"nobody knows whether it was executed: {_named(maybe)}"
    if pairing.wrong:
        return "wrong", f"{_named(write for _, write in pairing.wrong)} not as asked"
    if pairing.missing:
        refused = [f"{write.name} with {write.refusal}" for write in writes if write.fate == "refused"]
        why = f" (refused: {', '.join(dict.fromkeys(refused))})" if refused else ""
        return "lost", f"{', '.join(request.name for request in pairing.missing)} missing{why}"
    if pairing.extra:
        return "extra", f"{_named(pairing.extra)} not asked for"
    return ("as_asked" if asked else "not_applicable"), ""


def _how_often(
    asked: Sequence[ExpectedRequest], executed: Sequence[WireWrite], again: Sequence[WireWrite]
) -> str:
    """``POST /orders of shop executed 2 times, asked once``."""
    names = dict.fromkeys(write.name for write in again)
    done = Counter(write.name for write in executed if any(_fits(request, write) for request in asked))
    wanted = {
        write.name: sum(_is_call(request, write) for request in asked)
        for write in executed
        if write.name in names
    }
    return "; ".join(
        f"{name} executed {times_in_words(done[name])}, asked {times_in_words(wanted[name])}"
        for name in names
    )


def _is_call(asked: ExpectedRequest, write: WireWrite) -> bool:
    """Whether it is that call, whatever it carries."""
    exchange = write.exchange
    if asked.tool:
        return exchange.link == asked.link and fnmatchcase(exchange.tool, asked.tool)
    same = (exchange.link, exchange.method) == (asked.link, asked.method)
    return same and fnmatchcase(write.path, asked.path)


def _fits(asked: ExpectedRequest, write: WireWrite) -> bool:
    if not _is_call(asked, write) or not json_matches(asked.query, write.query):
        return False
    return asked.body is None or json_matches(asked.body, write.body)


def _cannot_be_read(asked: ExpectedRequest, write: WireWrite) -> bool:
    return (
        write.fate != "refused"
        and asked.body is not None
        and _is_call(asked, write)
        and not write.body_is_known
    )


def _named(writes: Iterable[WireWrite]) -> str:
    """``POST /orders of shop (2 times), DELETE /orders/7 of shop``."""
    counts = Counter(write.name for write in writes)
    return ", ".join(name if n == 1 else f"{name} ({times_in_words(n)})" for name, n in counts.items())
