"""The events of one episode, line by line: requests, faults, replies, side effects, claim. Pure."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import repeat
from typing import Any, Literal

from wirefault.history.events import (
    AttemptArmed,
    AttemptEnded,
    EpisodeStarted,
    Event,
    Exchange,
    FaultedReply,
    FaultMet,
    FaultsSet,
    ModelCall,
    PipeServer,
    RecoveryTried,
    SocketMessage,
    SubjectKilled,
    SubjectResumed,
    ToolCalled,
    ToolCallRefused,
    ToolTry,
    TurnStarted,
    WentPastLab,
    WorldRead,
)
from wirefault.history.gateway_events import GUIDING_HEADERS
from wirefault.history.judged_events import Claim, FaultRecord
from wirefault.history.logs import recovery_message
from wirefault.judging.judge import JudgedEpisode
from wirefault.judging.kills import KillFigures, episode_kills
from wirefault.judging.requests import Request
from wirefault.judging.trace import EpisodeTrace
from wirefault.toxiproxy.planned import PlannedToxic

LineKind = Literal[
    "attempt",  # an attempt is armed
    "user",  # the text of a further turn
    "toxic",  # a toxic of the attempt
    "armed",  # another fault set
    "message",  # of a WebSocket connection, if a fault acted on it or made it
    "model",  # a request to a model
    "request",  # a request of no recorded call
    "call",  # a tool call of the model
    "try",  # one of its requests
    "fault",  # a fault that the request met
    "shadow",  # a fault that acts here in another arm
    "upstream",  # the reply of the upstream
    "observed",  # the reply that the caller received
    "got",  # a reply without a fault
    "result",  # the tool result that the model received
    "refused",  # a call that the subject refused
    "killed",  # a fault killed the subject
    "resumed",  # the subject runs again
    "recovery",  # an attempt of the subject to recover
    "past lab",  # a connection outside every link
    "effect",  # a change in the world
    "error",
    "reply",  # the answer to an earlier turn
    "answer",
    "claim",
]
_NOT_FORWARDED = "nothing, it was not forwarded"
_NO_REPLY = "no reply"
_LOST = "no whole reply"
_MAYBE_LOST = "unknown: a toxic may have kept the reply back"


@dataclass(frozen=True)
class TimelineLine:
    """A line of the timeline."""

    kind: LineKind
    text: str
    at: float | None = None  # in seconds; None: belongs to the line above
    ms: float | None = None
    seen: str = ""  # the status, or the error's name
    depth: int = 0  # of its indentation
    label: str = ""  # shown instead of the kind
    ids: tuple[str, ...] = ()  # of its events
    # of a reply with a fault: "Retry-After: 2"; the guiding ones, and the ones that differ
    headers: tuple[str, ...] = ()

    def deeper(self) -> TimelineLine:
        """Return the line indented one step more."""
        return replace(self, depth=self.depth + 1)

    def later_than(self, start: float) -> TimelineLine:
        """Return the line with its time relative to ``start``."""
        return self if self.at is None else replace(self, at=round(self.at - start, 6))


def reply_lines(
    request: Request, label: str, text: str, faults: Sequence[FaultRecord]
) -> Iterator[TimelineLine]:
    """Return the request; if it met a fault, also the faults and the reply before and after."""
    kind: LineKind = "model" if request.of_model else "try" if label.startswith("try") else "request"
    tried, exchange = request.caller_record, request.exchange
    ms = tried.ms if tried is not None else exchange.ms if exchange is not None else None
    yield TimelineLine(kind, text, request.start, ms, _seen(request), 0, label, request.ids)
    toxics = [record for record in faults if record.source == "toxic" and _shows(record, request)]
    for record in toxics:
        yield TimelineLine("fault", f"toxic {record.kind} {record.stream or ''}: seen by the caller", depth=1)
    if exchange is not None:
        for fault in exchange.faults:
            yield TimelineLine("fault", _fault(fault, request, faults), depth=1)
        for shadow in exchange.shadows:
            yield TimelineLine("shadow", f"{shadow.id or shadow.kind}, in the arm {shadow.arm}", depth=1)
    # a fault of messages leaves the reply alone that opens their connection
    injected = (
        exchange is not None and exchange.status != 101 and any(fault.injected for fault in exchange.faults)
    )
    if exchange is not None and exchange.faulted_reply is not None and injected:
        yield from _both_sides(request, exchange, exchange.faulted_reply)
    elif toxics:
        yield from _toxic_sides(request)
    elif exchange is not None and tried is None and not request.of_model and exchange.reply_body:
        yield from _without_fault(request, exchange, exchange.reply_body)


def _without_fault(request: Request, exchange: Exchange, body: str) -> Iterator[TimelineLine]:
    """Return the reply; if a toxic keeps it back or may do so, as the upstream's, with what is known."""
    if request.reply_lost is False:
        yield TimelineLine("got", body, depth=1)
        return
    yield TimelineLine("upstream", body, seen=str(exchange.status or ""), depth=1)
    yield TimelineLine("observed", _LOST if request.reply_lost else _MAYBE_LOST, depth=1)


def _seen(request: Request) -> str:
    """Return the status that the caller saw; without its record, what is known of it."""
    if request.caller_record is not None:
        return request.caller_record.error or str(request.caller_record.status or "")
    exchange = request.exchange
    if exchange is None or exchange.status is None:
        return _NO_REPLY
    if not exchange.reply_complete:
        return f"{exchange.status}, cut short"
    if request.reply_lost is None:
        return "unknown"
    return "lost" if request.reply_lost else str(exchange.status)


def _fault(fault: FaultMet, request: Request, faults: Sequence[FaultRecord]) -> str:
    name = fault.kind if fault.id in ("", fault.kind) else f"{fault.id}: {fault.kind}"
    if not fault.injected:
        return f"{name}, met, but changed nothing: {fault.why_not}"
    of_it = [f for f in faults if f.source != "toxic" and (f.entry, f.kind) == (fault.id, fault.kind)]
    by_caller = any(_shows(record, request) for record in of_it)
    return name + (", seen by the caller" if by_caller else ", injected")


def _shows(record: FaultRecord, request: Request) -> bool:
    """Return whether the caller's record of this request shows the fault."""
    if record.attempt != request.attempt or record.link != request.link_name:
        return False
    match request.caller_record:
        case None:
            return False
        case ToolTry():
            key = request.caller_record.fingerprint, request.caller_record.call, request.caller_record.try_
        case ModelCall():
            key = "", request.caller_record.ordinal, request.caller_record.try_
    return any(tried.shows and (tried.fingerprint, tried.call, tried.try_) == key for tried in record.tries)


def _both_sides(request: Request, exchange: Exchange, faulted: FaultedReply) -> Iterator[TimelineLine]:
    status = exchange.answered
    upstream = _body(faulted.upstream_reply, faulted.upstream_reply_cut)
    if upstream is None:
        upstream = _NO_REPLY if exchange.forwarded else _NOT_FORWARDED
    own, other = faulted.upstream_headers, faulted.observed_headers
    yield TimelineLine("upstream", upstream, seen=str(status or ""), depth=1, headers=_headers(own, other))
    observed = _body(faulted.observed, faulted.observed_cut)
    if observed is None:
        error = request.caller_record.error if request.caller_record is not None else None
        yield TimelineLine("observed", f"nothing ({error})" if error else "nothing", depth=1)
        return
    if exchange.reply_complete and request.reply_lost is not False:
        yield TimelineLine("observed", _LOST if request.reply_lost else _MAYBE_LOST, depth=1)
        return
    if (status, faulted.upstream_reply) == (exchange.status, faulted.observed):
        delay = sum(fault.delay_ms for fault in exchange.faults)
        observed = "the same" + (f", {delay:.0f} ms later" if delay else "")
    headers = _headers(other, own)
    yield TimelineLine("observed", observed, seen=str(exchange.status or ""), depth=1, headers=headers)


def _headers(own: Mapping[str, str], other: Mapping[str, str]) -> tuple[str, ...]:
    """Return the headers that guide the client, and the ones that the other side has differently."""
    names = [name for name in own if name in GUIDING_HEADERS or (other and own[name] != other.get(name))]
    return tuple(f"{name}: {own[name]}" for name in names)


def _body(text: str | None, cut: bool) -> str | None:
    return text if text is None else text + (" ..." if cut else "")


def _toxic_sides(request: Request) -> Iterator[TimelineLine]:
    """Return both sides of a toxic, which acts between caller and gateway: the gateway's is the
    upstream's.
    """
    exchange, tried = request.exchange, request.caller_record
    upstream, status = "the gateway received no complete request", ""
    if exchange is not None and exchange.answered is not None:
        body = (
            _body(exchange.faulted_reply.upstream_reply, exchange.faulted_reply.upstream_reply_cut)
            if exchange.faulted_reply
            else None
        )
        upstream, status = body or f"a reply of {exchange.reply_bytes} bytes", str(exchange.answered)
    elif exchange is not None and exchange.request_complete:
        upstream = _NO_REPLY
    yield TimelineLine("upstream", upstream, seen=status, depth=1)
    if tried is not None:
        observed = f"nothing ({tried.error})" if tried.status is None else "a reply"
        text = f"{observed} after {tried.ms:.0f} ms"
        yield TimelineLine("observed", text, seen=str(tried.status or ""), depth=1)


_CallKey = tuple[int, str, str, int]
_Block = tuple[float, list[TimelineLine]]


def timeline_as_json(episode: JudgedEpisode) -> dict[str, Any]:
    """Return one JSON object; ``at`` in seconds from the episode's start, ``ms`` as the caller saw it."""
    judged = episode.judged
    return {
        "run_id": episode.run_id,
        "episode": judged.episode,
        "prompt": judged.prompt,
        "outcome": judged.outcome,
        "world": judged.world,
        "claim": judged.claim,
        "value": judged.value,
        "flags": judged.flags,
        "why": judged.why,
        "timeline": [asdict(line) for line in timeline_lines(episode)],
        "findings": [finding.as_json() for finding in episode.findings],
    }


def timeline_lines(episode: JudgedEpisode) -> list[TimelineLine]:
    """Return the lines of an episode in order of time; none if it has not started."""
    trace, judged = episode.trace, episode.judged
    started = trace.last(EpisodeStarted)
    if started is None:
        return []
    ended = trace.last(AttemptEnded)
    blocks = [
        *_request_blocks(trace.events, trace.requests, judged.faults),
        *_others(trace, judged.faults, {ended.attempt: judged.claim} if ended else {}),
    ]
    return [
        line.later_than(started.t)
        for _, block in sorted(blocks, key=lambda block: block[0])
        for line in block
    ]


def _request_blocks(
    events: Iterable[Event], requests: Iterable[Request], faults: Sequence[FaultRecord]
) -> Iterator[_Block]:
    """Yield the recorded tool calls, each with its tries, then all other requests."""
    of_calls: defaultdict[_CallKey, list[Request]] = defaultdict(list)
    for each in requests:
        of_calls[_call_of(each)].append(each)
    for call in events:
        if isinstance(call, ToolCalled):
            tries = of_calls.pop((call.attempt, call.link, call.fingerprint, call.call), [])
            yield tries[0].start if tries else call.t, list(_tool_call(call, tries, faults))
    for others in of_calls.values():
        for each in others:
            yield each.start, list(reply_lines(each, _label(each), _request_text(each), faults))


def _call_of(request: Request) -> _CallKey:
    record = request.exchange or request.caller_record
    if isinstance(record, Exchange | ToolTry) and not request.of_model:
        return record.attempt, record.link, record.fingerprint, record.call
    return request.attempt, request.link_name, "", 0


def _tool_call(
    call: ToolCalled, tries: Sequence[Request], faults: Sequence[FaultRecord]
) -> Iterator[TimelineLine]:
    arguments = ", ".join(f"{name}={_json(value)}" for name, value in call.arguments.items())
    yield TimelineLine("call", f"{call.tool}({arguments})", tries[0].start if tries else call.t)
    for place, each in enumerate(tries, start=1):
        label = f"try {place}"
        yield from (line.deeper() for line in reply_lines(each, label, _request_text(each), faults))
    result = call.result if call.ok else f"failed: {call.error or call.result}"
    fallback = " (by the fallback, bypassing the lab)" if call.fallback_used else ""
    yield TimelineLine("result", result + fallback, call.t, depth=1)


def _label(request: Request) -> str:
    return "model" if request.of_model else "request"


def _request_text(request: Request) -> str:
    """Describe the request and which repetition of it this is."""
    exchange = request.exchange
    text = f"{request.link_name}  {request.name}"
    if exchange is None:
        return f"{text}  (not seen by the gateway)"
    if not exchange.message and not request.of_model:
        text = f"{request.link_name}  {exchange.method} {exchange.target}"
    if request.of_model:
        text += f"  request {exchange.call}"
    elif exchange.call > 1:
        text += f"  call {exchange.call}"
    return text + (f"  try {exchange.try_}" if exchange.try_ > 1 and request.of_model else "")


def _others(
    trace: EpisodeTrace, faults: Sequence[FaultRecord], claims: Mapping[int, Claim]
) -> Iterator[_Block]:
    """Yield everything but requests: attempts, side effects, errors, answers. ``claims``: by attempt."""
    effects: set[str] = set()
    kills = {(kill.attempt, kill.number): kill for kill in episode_kills(trace)}
    for event in trace.events:
        match event:
            case AttemptArmed():
                yield event.t, list(_armed(event, faults))
            case FaultsSet():
                text = f"fault set changed: {', '.join(event.entries) or 'no fault'}"
                yield event.t, [TimelineLine("armed", text, event.t)]
            case TurnStarted():
                yield event.t, [TimelineLine("user", event.text or f"turn {event.turn}", event.t)]
            case ToolCallRefused():
                text = f"{event.tool}({event.arguments}) refused by the subject, {event.why}: {event.detail}"
                yield event.t, [TimelineLine("refused", text, event.t)]
            case SubjectKilled():
                kill = kills.get((event.attempt, event.number))
                yield event.t, [TimelineLine("killed", killed_text(event), event.t), *_cost(kill)]
            case SubjectResumed():
                text = f"in the same attempt by {event.command}"
                yield event.t, [TimelineLine("resumed", text, event.t)]
            case RecoveryTried():
                yield event.t, [TimelineLine("recovery", recovery_message(event), event.t)]
            case WentPastLab():
                size = "" if event.sent is None else f": {event.sent} bytes sent, {event.received} received"
                yield event.t, [TimelineLine("past lab", event.text + size, event.t)]
            case PipeServer():
                yield event.t, [TimelineLine("past lab", event.text, event.t)]
            case SocketMessage() if event.fault:
                text = f"{event.link}  {_message_text(event)}: {event.fate} ({event.fault})"
                yield event.t, [TimelineLine("message", text, event.t)]
            case WorldRead():
                yield from _effects(event, effects)
            case AttemptEnded():
                ends = event.turn_ends or repeat(event.end)
                for at, text in zip(ends, event.earlier_answers, strict=False):
                    yield at, [TimelineLine("reply", text or "none (empty)", at)]
                yield event.end, list(_end(event, claims.get(event.attempt, "none")))


_POINTS = {
    "before_reply": "request executed, reply not delivered",
    "after_reply": "reply delivered",
    "mid_stream": "in mid-stream",
    "before_request": "request not forwarded",
}


def killed_text(killed: SubjectKilled) -> str:
    """Describe a kill of the subject."""
    signal = "SIGKILL" if killed.signal == "kill" else "SIGTERM"
    state = "dead" if killed.dead else "not dead"
    point = _POINTS.get(killed.point, killed.point)
    return f"{signal} at {killed.link}, {point}; {state} after {killed.ms:.0f} ms"


def _cost(kill: KillFigures | None) -> Iterator[TimelineLine]:
    """Yield the losses by a kill, and the work after it; nothing if the subject survived."""
    if kill is not None:
        yield from (TimelineLine("killed", text, depth=1, label="lost") for text in kill.lost)
        yield TimelineLine("killed", kill.text, depth=1, label="after it")


def _message_text(message: SocketMessage) -> str:
    """Describe a message of a WebSocket connection."""
    number = f" {message.number}" if message.number else ""
    return f"{message.sender}'s message{number} {message.type or message.kind} ({message.size} bytes)"


def _armed(armed: AttemptArmed, faults: Sequence[FaultRecord]) -> Iterator[TimelineLine]:
    acted = any(fault.attempt == armed.attempt and fault.reached("injected") for fault in faults)
    none = "" if armed.toxics or acted else ", no toxic drawn"
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
        yield TimelineLine("toxic", f"not met: {', '.join(idle)}", depth=1)
    for shadow in armed.shadows:
        text = f"{shadow.toxic.kind} {shadow.toxic.stream} on {shadow.toxic.link}, in the arm {shadow.arm}"
        yield TimelineLine("shadow", text, depth=1)


def _is_of(record: FaultRecord, attempt: int, toxic: PlannedToxic) -> bool:
    of_toxic = record.source == "toxic" and (record.attempt, record.link) == (attempt, toxic.link)
    return of_toxic and (record.entry, record.kind, record.stream) == (toxic.entry, toxic.kind, toxic.stream)


def _effects(world: WorldRead, known: set[str]) -> Iterator[_Block]:
    """Yield the side effects at their times; effects read again after a later attempt appear once."""
    if world.error:
        yield world.t, [TimelineLine("effect", f"unknown, cannot read the world: {world.error}", world.t)]
    for effect in world.effects:
        if (row := json.dumps(effect, sort_keys=True, default=str)) not in known:
            known.add(row)
            at = float(effect.get("at") or world.t)
            fields = json.dumps(effect.get("fields", {}), ensure_ascii=False, default=str)
            yield at, [TimelineLine("effect", f"{effect.get('kind', '')} {fields}", at)]


def _end(end: AttemptEnded, claim: Claim) -> Iterator[TimelineLine]:
    if end.error is not None:
        yield TimelineLine("error", f"{end.error_type or 'error'}: {end.error}", end.end)
    if end.response or end.error is None:
        yield TimelineLine("answer", end.response or f"none ({end.ended_by})", end.end)
    if end.report is not None:
        values = ", ".join(f"{v.get('value')} {v.get('unit') or ''}".strip() for v in end.report.values)
        yield TimelineLine("claim", end.report.status + (f", values {values}" if values else ""), depth=1)
    elif end.ended_by == "text" and claim in ("done", "failed"):
        where = "replies" if end.earlier_answers else "answer"
        yield TimelineLine("claim", f"{claim}, by the words of the {where}", depth=1)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
