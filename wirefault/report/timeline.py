"""What happened in one episode, line by line: requests, faults, both sides, effects, claim. Pure."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from wirefault.history.events import (
    AttemptArmed,
    AttemptEnded,
    EpisodeStarted,
    Event,
    Exchange,
    FaultsSet,
    RunStarted,
    ToolCalled,
    ToolCallRefused,
    ToolTry,
    TurnBegun,
    WentPastLab,
    WorldRead,
)
from wirefault.judging.evidence.record import FaultRecord
from wirefault.judging.findings.finding import Finding
from wirefault.judging.findings.rules import findings_in
from wirefault.judging.judge import EpisodeJudgement, judge_episode
from wirefault.judging.requests import Request, traces
from wirefault.report.timeline_replies import TimelineLine, reply_lines
from wirefault.toxiproxy.planned import PlannedToxic

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
    own = [event for event in events if getattr(event, "episode", None) == episode]
    started = next((event for event in own if isinstance(event, EpisodeStarted)), None)
    run = next((event for event in events if isinstance(event, RunStarted)), None)
    if started is None or run is None:
        raise ValueError(f"episode {episode} is not in this history")
    judgement = judge_episode(own)
    sent = [each for trace in traces(events) if trace.episode == episode for each in trace.requests]
    blocks = [*_requests(own, sent, judgement.faults), *_others(own, judgement.faults)]
    lines = [
        line.later_than(started.t)
        for _, block in sorted(blocks, key=lambda block: block[0])
        for line in block
    ]
    findings = [finding for finding in findings_in(events) if finding.episode == episode]
    return Timeline(run.run_id, judgement, lines, findings)


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
