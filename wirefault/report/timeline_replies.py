"""One request in an episode's timeline: what struck it, what its upstream said, what its caller got. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from wirefault.history.events import Exchange, FaultMet, ModelCall, StruckReply, ToolTry
from wirefault.judging.evidence.record import FaultRecord
from wirefault.judging.requests import Request

LineKind = Literal[
    "attempt",  # it is armed
    "user",  # what is said in a further turn
    "toxic",  # one that it has
    "armed",  # another fault set
    "model",  # a request to a model
    "request",  # any other that belongs to no recorded call
    "call",  # a tool call as the model asked for it
    "try",  # one of its requests
    "fault",  # what struck the request
    "shadow",  # what would have struck it, or the attempt, in another arm
    "natural",  # what the upstream said
    "observed",  # what the caller got
    "got",  # a reply that nothing struck
    "told",  # what the model was told
    "refused",  # a call that the subject refused
    "past lab",  # what no link carried
    "effect",  # a change in the world
    "error",
    "answer",
    "claim",
]
_NOT_ASKED = "nothing, it was not asked"
_NO_REPLY = "no reply"


@dataclass(frozen=True)
class TimelineLine:
    """``at``: in seconds, None for what belongs to the line above. ``seen``: the status, or the error's name.

    ``depth``: how far it is indented. ``label``: what a reader sees in the kind's place. ``ids`` are those of
    the events that it was made of.
    """

    kind: LineKind
    text: str
    at: float | None = None
    ms: float | None = None
    seen: str = ""
    depth: int = 0
    label: str = ""
    ids: tuple[str, ...] = ()

    def deeper(self) -> TimelineLine:
        """The line one step further to the right."""
        return replace(self, depth=self.depth + 1)

    def later_than(self, start: float) -> TimelineLine:
        """The line with its time counted from there."""
        return self if self.at is None else replace(self, at=round(self.at - start, 6))


def reply_lines(
    sent: Request, label: str, text: str, faults: Sequence[FaultRecord]
) -> Iterator[TimelineLine]:
    """The request's own line; where something struck it the faults, and both sides of the reply."""
    kind: LineKind = "model" if sent.of_model else "try" if label.startswith("try") else "request"
    tried, exchange = sent.caller_record, sent.exchange
    ms = tried.ms if tried is not None else exchange.ms if exchange is not None else None
    yield TimelineLine(kind, text, sent.start, ms, _seen(sent), 0, label, sent.ids)
    toxics = [record for record in faults if record.source == "toxic" and _shows(record, sent)]
    for record in toxics:
        yield TimelineLine("fault", f"toxic {record.kind} {record.stream or ''}: seen by the caller", depth=1)
    if exchange is not None:
        for met in exchange.faults:
            yield TimelineLine("fault", _fault(met, sent, faults), depth=1)
        for shadow in exchange.shadows:
            yield TimelineLine("shadow", f"{shadow.id or shadow.kind}, in the arm {shadow.arm}", depth=1)
    struck_by_fault = exchange is not None and any(met.injected for met in exchange.faults)
    if exchange is not None and exchange.struck is not None and struck_by_fault:
        yield from _both_sides(sent, exchange, exchange.struck)
    elif toxics:
        yield from _sides_of_toxic(sent)
    elif exchange is not None and tried is None and not sent.of_model and exchange.reply_body:
        yield TimelineLine("got", exchange.reply_body, depth=1)


def _seen(sent: Request) -> str:
    """What its caller saw; of a caller that keeps no record what the gateway gave it."""
    if sent.caller_record is not None:
        return sent.caller_record.error or str(sent.caller_record.status or "")
    exchange = sent.exchange
    if exchange is None or exchange.status is None:
        return "no reply"
    return str(exchange.status) if exchange.reply_complete else f"{exchange.status}, cut short"


def _fault(met: FaultMet, sent: Request, faults: Sequence[FaultRecord]) -> str:
    name = met.kind if met.id in ("", met.kind) else f"{met.id}: {met.kind}"
    if not met.injected:
        return f"{name}, met, but changed nothing: {met.why_not}"
    of_it = [f for f in faults if f.source != "toxic" and (f.entry, f.kind) == (met.id, met.kind)]
    by_caller = any(_shows(record, sent) for record in of_it)
    return name + (", seen by the caller" if by_caller else ", injected")


def _shows(record: FaultRecord, sent: Request) -> bool:
    """Whether the caller's record of this request shows the fault."""
    if record.attempt != sent.attempt or record.link != sent.link_name:
        return False
    match sent.caller_record:
        case None:
            return False
        case ToolTry():
            key = sent.caller_record.fingerprint, sent.caller_record.call, sent.caller_record.try_
        case ModelCall():
            key = "", sent.caller_record.ordinal, sent.caller_record.try_
    return any(tried.shows and (tried.fingerprint, tried.call, tried.try_) == key for tried in record.tries)


def _both_sides(sent: Request, exchange: Exchange, struck: StruckReply) -> Iterator[TimelineLine]:
    status = exchange.answered
    natural = _body(struck.natural, struck.natural_cut)
    if natural is None:
        natural = _NO_REPLY if exchange.forwarded else _NOT_ASKED
    yield TimelineLine("natural", natural, seen=str(status or ""), depth=1)
    observed = _body(struck.observed, struck.observed_cut)
    if observed is None:
        error = sent.caller_record.error if sent.caller_record is not None else None
        observed = f"nothing ({error})" if error else "nothing"
    elif (status, struck.natural) == (exchange.status, struck.observed):
        delay = sum(met.delay_ms for met in exchange.faults)
        observed = "the same" + (f", {delay:.0f} ms later" if delay else "")
    yield TimelineLine("observed", observed, seen=str(exchange.status or ""), depth=1)


def _body(text: str | None, cut: bool) -> str | None:
    return text if text is None else text + (" ..." if cut else "")


def _sides_of_toxic(sent: Request) -> Iterator[TimelineLine]:
    """A toxic acts between caller and gateway: the gateway's record is the natural side."""
    exchange, tried = sent.exchange, sent.caller_record
    natural, status = "no whole request came to the gateway", ""
    if exchange is not None and exchange.answered is not None:
        kept = _body(exchange.struck.natural, exchange.struck.natural_cut) if exchange.struck else None
        natural, status = kept or f"a reply of {exchange.reply_bytes} bytes", str(exchange.answered)
    elif exchange is not None and exchange.request_complete:
        natural = _NO_REPLY
    yield TimelineLine("natural", natural, seen=status, depth=1)
    if tried is not None:
        observed = f"nothing ({tried.error})" if tried.status is None else "a reply"
        text = f"{observed} after {tried.ms:.0f} ms"
        yield TimelineLine("observed", text, seen=str(tried.status or ""), depth=1)
