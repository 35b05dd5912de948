"""What happened in one episode, line by line: requests, faults, both sides, effects, claim. Pure."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from wirefault.history.events import (
    AttemptArmed,
    AttemptEnded,
    EpisodeStarted,
    Event,
    Exchange,
    FaultMet,
    FaultsSet,
    ModelCall,
    RunStarted,
    StruckReply,
    ToolCalled,
    ToolCallRefused,
    ToolTry,
    TurnBegun,
    WentPastLab,
    WorldRead,
)
from wirefault.judging.evidence.record import FaultRecord
from wirefault.judging.findings.finding import Finding
from wirefault.judging.findings.rules import trace_findings
from wirefault.judging.judge import EpisodeJudgement, judge_trace
from wirefault.judging.requests import Request, traces
from wirefault.toxiproxy.planned import PlannedToxic

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
    natural = _body(struck.natural, struck.upstream_reply_cut)
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
        kept = _body(exchange.struck.natural, exchange.struck.upstream_reply_cut) if exchange.struck else None
        natural, status = kept or f"a reply of {exchange.reply_bytes} bytes", str(exchange.answered)
    elif exchange is not None and exchange.request_complete:
        natural = _NO_REPLY
    yield TimelineLine("natural", natural, seen=status, depth=1)
    if tried is not None:
        observed = f"nothing ({tried.error})" if tried.status is None else "a reply"
        text = f"{observed} after {tried.ms:.0f} ms"
        yield TimelineLine("observed", text, seen=str(tried.status or ""), depth=1)


_CallKey = tuple[int, str, str, int]
_Block = tuple[float, list[TimelineLine]]


@dataclass(frozen=True)
class Timeline:
    """An episode with its verdict. ``lines`` are in the order of time, those of one request together."""

    run_id: str
    judgement: EpisodeJudgement
    lines: Sequence[TimelineLine]
    findings: Sequence[Finding]

    def as_json(self) -> dict[str, Any]:
        """One JSON object; ``at`` in seconds from the episode's start, ``ms`` as the caller saw it."""
        judged = self.judgement
        return {
            "run_id": self.run_id,
            "episode": judged.episode,
            "prompt": judged.prompt,
            "outcome": judged.outcome,
            "world": judged.world,
            "claim": judged.claim,
            "value": judged.value,
            "flags": judged.flags,
            "why": judged.why,
            "timeline": [asdict(line) for line in self.lines],
            "findings": [asdict(finding) for finding in self.findings],
        }


def timeline_of(events: Sequence[Event], episode: str) -> Timeline:
    """That of one episode of a run, by all events of the run. Raises ``ValueError`` if it is not in there."""
    trace = next((trace for trace in traces(events) if trace.episode == episode), None)
    started = trace.last(EpisodeStarted) if trace else None
    run = next((event for event in events if isinstance(event, RunStarted)), None)
    if trace is None or started is None or run is None:
        raise ValueError(f"episode {episode} is not in this history")
    judgement = judge_trace(trace)
    blocks = [
        *_requests(trace.events, trace.requests, judgement.faults),
        *_others(trace.events, judgement.faults),
    ]
    lines = [
        line.later_than(started.t)
        for _, block in sorted(blocks, key=lambda block: block[0])
        for line in block
    ]
    return Timeline(run.run_id, judgement, lines, trace_findings([trace]))


def _requests(
    events: Iterable[Event], sent: Iterable[Request], faults: Sequence[FaultRecord]
) -> Iterator[_Block]:
    """The tool calls that the subject recorded, each with its tries; then what belongs to none of them."""
    of_calls: defaultdict[_CallKey, list[Request]] = defaultdict(list)
    for each in sent:
        of_calls[_call_of(each)].append(each)
    for call in events:
        if isinstance(call, ToolCalled):
            tries = of_calls.pop((call.attempt, call.link, call.fingerprint, call.call), [])
            yield tries[0].start if tries else call.t, list(_tool_call(call, tries, faults))
    for others in of_calls.values():
        for each in others:
            yield each.start, list(reply_lines(each, _label(each), _asked(each), faults))


def _call_of(sent: Request) -> _CallKey:
    record = sent.exchange or sent.caller_record
    if isinstance(record, Exchange | ToolTry) and not sent.of_model:
        return record.attempt, record.link, record.fingerprint, record.call
    return sent.attempt, sent.link_name, "", 0


def _tool_call(
    call: ToolCalled, tries: Sequence[Request], faults: Sequence[FaultRecord]
) -> Iterator[TimelineLine]:
    arguments = ", ".join(f"{name}={_shown(value)}" for name, value in call.arguments.items())
    yield TimelineLine("call", f"{call.tool}({arguments})", tries[0].start if tries else call.t)
    for place, each in enumerate(tries, start=1):
        label = f"try {place}"
        yield from (line.deeper() for line in reply_lines(each, label, _asked(each), faults))
    told = call.result if call.ok else f"failed: {call.error or call.result}"
    fallback = " (by the fallback, past the lab)" if call.fallback_used else ""
    yield TimelineLine("told", told + fallback, call.t, depth=1)


def _label(sent: Request) -> str:
    return "model" if sent.of_model else "request"


def _asked(sent: Request) -> str:
    """What was requested, and which repetition of it this is."""
    exchange = sent.exchange
    text = f"{sent.link_name}  {sent.name}"
    if exchange is None:
        return f"{text}  (the gateway did not see it)"
    if not exchange.message and not sent.of_model:
        text = f"{sent.link_name}  {exchange.method} {exchange.target}"
    if sent.of_model:
        text += f"  request {exchange.call}"
    elif exchange.call > 1:
        text += f"  for the {exchange.call}. time"
    return text + (f"  try {exchange.try_}" if exchange.try_ > 1 and sent.of_model else "")


def _others(events: Iterable[Event], faults: Sequence[FaultRecord]) -> Iterator[_Block]:
    """What is no request: the attempts' beginning and end, what changed in the world, and what went wrong."""
    effects: set[str] = set()
    for event in events:
        match event:
            case AttemptArmed():
                yield event.t, list(_armed(event, faults))
            case FaultsSet():
                text = f"another fault set is in force from here on: {', '.join(event.entries) or 'no fault'}"
                yield event.t, [TimelineLine("armed", text, event.t)]
            case TurnBegun():
                yield event.t, [TimelineLine("user", event.text or f"turn {event.turn}", event.t)]
            case ToolCallRefused():
                text = f"{event.tool}({event.arguments}) refused by the subject, {event.why}: {event.detail}"
                yield event.t, [TimelineLine("refused", text, event.t)]
            case WentPastLab():
                yield event.t, [TimelineLine("past lab", event.text, event.t)]
            case WorldRead():
                yield from _effects(event, effects)
            case AttemptEnded():
                yield event.end, list(_end(event))


def _armed(armed: AttemptArmed, faults: Sequence[FaultRecord]) -> Iterator[TimelineLine]:
    none = "" if armed.toxics else ", no toxic drawn"
    yield TimelineLine("attempt", f"{armed.attempt}{none}", armed.t)
    idle = []
    for toxic in armed.toxics:
        record = next((fault for fault in faults if _is_of(fault, armed.attempt, toxic)), None)
        if record is not None and record.why_not == "not_exercised":
            idle.append(f"{toxic.kind} on {toxic.link}")
            continue
        delivered = None if record is None else record.delivered
        seen = "" if delivered is None else ": seen" if delivered else ": not seen"
        attributes = ", ".join(f"{name} {value}" for name, value in toxic.attributes.items() if value)
        text = f"{toxic.kind} {toxic.stream} on {toxic.link}" + (f" ({attributes})" if attributes else "")
        yield TimelineLine("toxic", text + seen, depth=1)
    if idle:
        yield TimelineLine("toxic", f"nothing crossed: {', '.join(idle)}", depth=1)
    for shadow in armed.shadows:
        text = f"{shadow.toxic.kind} {shadow.toxic.stream} on {shadow.toxic.link}, in the arm {shadow.arm}"
        yield TimelineLine("shadow", text, depth=1)


def _is_of(record: FaultRecord, attempt: int, toxic: PlannedToxic) -> bool:
    of_toxic = record.source == "toxic" and (record.attempt, record.link) == (attempt, toxic.link)
    return of_toxic and (record.entry, record.kind, record.stream) == (toxic.entry, toxic.kind, toxic.stream)


def _effects(world: WorldRead, known: set[str]) -> Iterator[_Block]:
    """The side effects, each when it was made; one that is read again after a later attempt is shown once."""
    if world.error:
        yield world.t, [TimelineLine("effect", f"unknown, the world cannot be read: {world.error}", world.t)]
    for effect in world.effects:
        if (row := json.dumps(effect, sort_keys=True, default=str)) not in known:
            known.add(row)
            at = float(effect.get("at") or world.t)
            fields = json.dumps(effect.get("fields", {}), ensure_ascii=False, default=str)
            yield at, [TimelineLine("effect", f"{effect.get('kind', '')} {fields}", at)]


def _end(end: AttemptEnded) -> Iterator[TimelineLine]:
    if end.error is not None:
        yield TimelineLine("error", f"{end.error_type or 'error'}: {end.error}", end.end)
    if end.response or end.error is None:
        yield TimelineLine("answer", end.response or f"none ({end.ended_by})", end.end)
    if end.report is not None:
        values = ", ".join(f"{v.get('value')} {v.get('unit') or ''}".strip() for v in end.report.values)
        yield TimelineLine("claim", end.report.status + (f", values {values}" if values else ""), depth=1)


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
