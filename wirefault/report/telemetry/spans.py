"""A judged run as spans: run, episode, attempt, call, try, fault. Pure.

Each attempt is a trace: the one whose id the lab sends in ``traceparent`` and gives a command in
``TRACEPARENT``, so that spans of a subject that continues it are children of the attempt. A request that
comes with another context is a child of the subject's own span, in the subject's trace; a link leads back.
The first attempt's trace begins with the episode; further attempts and the run are linked.

Ids are hashes of names, so that a second export writes the same spans. Spans have no prompts, arguments,
bodies, queries or error messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from wirefault.core.identity import TRACEPARENT_HEADER, Identity, digest
from wirefault.dialects.mcp import MCP
from wirefault.history.events import Exchange, FaultMet, RecoveryTried, RunStarted, ToolCalled
from wirefault.history.judged_events import FaultRecord
from wirefault.judging.evidence.gather import faulted_exchanges
from wirefault.judging.evidence.toxics import ToxicTimes
from wirefault.judging.judge import JudgedEpisode, RunJudgement
from wirefault.judging.requests import Request
from wirefault.judging.same import calls_in
from wirefault.report.telemetry import conventions as names
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.wiring.links import Link

Value = str | int | float | bool
SpanKind = Literal["internal", "client", "server"]
# outcomes that are not the agent's failure
_NO_ERROR = frozenset({"success", "unjudged", "unconfirmed"})
_MAX_NAME = 80
_CallKey = tuple[str, str, int]  # link, fingerprint, call


class Context(NamedTuple):
    """The ids of a span and of its trace."""

    trace: int
    span: int


@dataclass(frozen=True)
class SpanEvent:
    name: str
    at: float
    attributes: Mapping[str, Value]


@dataclass(frozen=True)
class Span:
    """One span; times are seconds since the epoch."""

    name: str
    context: Context
    parent: Context | None
    start: float
    end: float
    kind: SpanKind = "internal"
    attributes: Mapping[str, Value] = field(default_factory=dict)
    error: str = ""
    """The value of ``error.type``; empty without an error."""
    links: tuple[Context, ...] = ()
    events: tuple[SpanEvent, ...] = ()


def run_spans(judged: RunJudgement, *, experiment: str = "", arm: str = "") -> Iterator[Span]:
    """Yield the spans of a run, parents first. ``experiment`` and ``arm``: names, where it is part of one."""
    started = judged.started
    run = _context(("run", started.run_id))
    place: dict[str, Value] = {names.RUN: started.run_id}
    if experiment:
        place |= {names.EXPERIMENT: experiment, names.ARM: arm}
    episodes = [_EpisodeSpans(started, episode, place, run) for episode in judged.by_episode.values()]
    spans = [list(each.all()) for each in episodes]
    end = max([judged.finished.t if judged.finished else started.t, *(s.end for one in spans for s in one)])
    dose = {names.FAULT_DOSE: _dose(started), names.FAULT_SEED: started.seed}
    agent: dict[str, Value] = {names.AGENT_NAME: _agent(started)}
    yield Span("run", run, None, started.t, end, attributes={**place, **agent, **dose})
    for one in spans:
        yield from one


class _EpisodeSpans:
    """The spans of one episode."""

    def __init__(
        self, started: RunStarted, episode: JudgedEpisode, place: Mapping[str, Value], run: Context
    ) -> None:
        self._started = started
        self._trace = episode.trace
        self._judgement = episode.judged
        self._place = {**place, names.EPISODE: episode.judged.episode}
        self._run = run
        self._used: set[int] = set()
        self._tries: dict[int, Context] = {}  # by the id() of their exchange
        calls = calls_in(episode.trace.rows)
        self._resends = {id(one): place for tries in calls for place, one in enumerate(tries) if place}

    def all(self) -> Iterator[Span]:
        attempts = sorted(
            {armed.attempt for armed in self._trace.armed} | {r.attempt for r in self._requests}
        )
        parts = {attempt: list(self._attempt(attempt)) for attempt in attempts}
        first = attempts[0] if attempts else 1
        episode = Context(self._attempt_context(first).trace, _id("episode", *self._names(first)))
        inside = [span for part in parts.values() for span in part]
        start = min([*(span.start for span in inside)], default=self._started.t)
        end = max([*(span.end for span in inside)], default=start)
        yield self._episode(episode, start, end)
        for attempt, part in parts.items():
            root, *rest = part
            if attempt == first:
                yield replace(root, parent=episode)
            else:
                yield replace(root, links=(episode,))
            yield from rest

    def _episode(self, context: Context, start: float, end: float) -> Span:
        judged = self._judgement
        label = {names.EVALUATION_NAME: names.OUTCOME, names.EVALUATION_LABEL: judged.outcome}
        axes = {names.WORLD: judged.world, names.CLAIM: judged.claim, names.VALUE: judged.value}
        return Span(
            "episode",
            context,
            None,
            start,
            end,
            attributes={**self._place, names.OUTCOME: judged.outcome, **axes},
            error="" if judged.outcome in _NO_ERROR else judged.outcome,
            links=(self._run,),
            events=(SpanEvent(names.EVALUATION, end, label),),
        )

    def _attempt(self, attempt: int) -> Iterator[Span]:
        """Yield the attempt's span, then its calls, tries and faults."""
        context = self._attempt_context(attempt)
        tries = {
            key: [self._try(request, context, key) for request in requests]
            for key, requests in self._calls(attempt).items()
        }
        recorded = {_key(call): call for call in self._recorded_calls(attempt)}
        calls: list[Span] = []
        for key in dict.fromkeys((*tries, *recorded)):
            calls += self._call(attempt, context, key, recorded.get(key), tries.get(key, []))
        calls += self._gateway_faults(attempt)
        ended = self._trace.end_of(attempt)
        armed = next((one.t for one in self._trace.armed if one.attempt == attempt), None)
        times = [time for span in calls for time in (span.start, span.end)] or [self._started.t]
        start = ended.event.start if ended else armed if armed is not None else min(times)
        end = ended.event.end if ended else max(start, *times)
        yield Span(
            f"{names.INVOKE_AGENT} {_agent(self._started)}",
            context,
            None,
            start,
            max(start, end),
            attributes={
                **self._place,
                names.ATTEMPT: attempt,
                names.OPERATION: names.INVOKE_AGENT,
                names.AGENT_NAME: _agent(self._started),
                names.CONVERSATION_ID: f"{self._started.run_id}/{self._trace.episode}",
            },
            error=(ended.event.error_type or "") if ended else "",
            events=tuple(self._recoveries(attempt)),
        )
        yield from sorted(calls, key=lambda span: span.start)
        yield from self._toxics(attempt, context, start, max(start, end))

    def _recoveries(self, attempt: int) -> Iterator[SpanEvent]:
        for tried in self._trace.all(RecoveryTried):
            if tried.attempt == attempt:
                what: dict[str, Value] = {names.STRATEGY: tried.strategy, names.SUCCESS: tried.success}
                yield SpanEvent(names.RECOVERY, tried.t, what)

    # calls and tries

    @property
    def _requests(self) -> Sequence[Request]:
        return self._trace.requests

    def _calls(self, attempt: int) -> dict[_CallKey, list[Request]]:
        calls: dict[_CallKey, list[Request]] = {}
        for request in self._requests:
            if request.attempt == attempt:
                calls.setdefault(request.try_key[1:4], []).append(request)
        return calls

    def _recorded_calls(self, attempt: int) -> Iterator[ToolCalled]:
        for call in self._trace.calls:
            if call.event.attempt == attempt:
                yield call.event

    def _call(
        self,
        attempt: int,
        parent: Context,
        key: _CallKey,
        recorded: ToolCalled | None,
        tries: Sequence[tuple[Request, Span]],
    ) -> Iterator[Span]:
        """Yield the call's span and its tries."""
        link, fingerprint, number = key
        first = tries[0][0] if tries else None
        last = tries[-1][0] if tries else None
        label, kind, attributes = _call_attributes(link, recorded, [request for request, _ in tries])
        start = min((span.start for _, span in tries), default=recorded.t if recorded else 0.0)
        end = max((span.end for _, span in tries), default=start)
        error = (recorded.error or "") if recorded else _try_error(last) if last else ""
        context = Context(
            parent.trace, self._unused("call", *self._names(attempt), link, fingerprint, number)
        )
        of_link: dict[str, Value] = {names.LINK: link, names.CALL: number}
        if first is not None:
            of_link |= _server(first.link)
        yield Span(
            label,
            context,
            parent,
            start,
            max(start, recorded.t) if recorded else end,
            kind,
            {**self._place, names.ATTEMPT: attempt, **of_link, **attributes},
            _low_cardinality(error),
        )
        for _, span in tries:
            joined = span.context.trace != parent.trace or span.parent not in (None, parent)
            yield replace(span, links=(context,)) if joined else replace(span, parent=context)

    def _try(self, request: Request, attempt: Context, key: _CallKey) -> tuple[Request, Span]:
        """Return the request's span. Its parent is the subject's own span where the request names one."""
        link, fingerprint, number = key
        identity = Identity(
            self._started.run_id, self._trace.episode, request.attempt, number, request.try_key[4]
        )
        theirs = _sent_context(request.exchange)
        of_wire = _parsed(identity.headers(link, fingerprint)[TRACEPARENT_HEADER])
        span_id = of_wire.span if of_wire is not None and of_wire.span not in self._used else 0
        if theirs is not None or not span_id:  # a client of the subject's may have sent the wire's own id on
            span_id = self._unused("try", *self._names(request.attempt), *request.try_key)
        self._used.add(span_id)
        context = Context(theirs.trace if theirs else attempt.trace, span_id)
        if request.exchange is not None:
            self._tries[id(request.exchange)] = context
        attributes: dict[str, Value] = {
            **self._place,
            names.ATTEMPT: request.attempt,
            names.LINK: link,
            **_server(request.link),
        }
        if request.method:
            attributes[names.HTTP_METHOD] = request.method
        if request.exchange is not None and not request.is_of_function:
            attributes[names.URL_PATH] = request.exchange.target.partition("?")[0]
        if request.status is not None:
            attributes[names.HTTP_STATUS] = request.status
        if place := self._resends.get(id(request)):
            attributes[names.HTTP_RESEND_COUNT] = place
        return request, Span(
            request.method or "request",
            context,
            theirs,
            request.start,
            max(request.start, request.end),
            "server" if theirs else "client",
            attributes,
            _try_error(request),
        )

    # faults

    def _gateway_faults(self, attempt: int) -> Iterator[Span]:
        records = self._judgement.faults
        of_gateway = [record for record in records if record.source != "toxic"]
        for place, ((exchange, fault), record) in enumerate(
            zip(faulted_exchanges(self._trace), of_gateway, strict=True)
        ):
            parent = self._tries.get(id(exchange))
            if exchange.attempt == attempt and parent is not None:
                begun = exchange.start + (fault.acted_ms or 0.0) / 1000
                end = max(begun, exchange.start + exchange.ms / 1000)
                span = self._unused("fault", *self._names(attempt), place)
                yield self._fault(record, Context(parent.trace, span), parent, begun, end, fault)

    def _toxics(self, attempt: int, parent: Context, start: float, end: float) -> Iterator[Span]:
        times = ToxicTimes(self._trace.events)
        records = [record for record in self._judgement.faults if record.source == "toxic"]
        planned = [(one.attempt, toxic) for one in self._trace.armed for toxic in one.toxics]
        for place, ((of_attempt, toxic), record) in enumerate(zip(planned, records, strict=True)):
            if of_attempt != attempt:
                continue
            for number, time in enumerate(times.of(attempt, toxic)):
                begun = min(max(start, time.begun), end)
                span = self._unused("toxic", *self._names(attempt), place, number)
                done = min(max(begun, time.gone), end)
                yield self._fault(
                    record,
                    Context(parent.trace, span),
                    parent,
                    begun,
                    done,
                    replace(toxic, attributes=time.attributes),
                )

    def _fault(
        self,
        record: FaultRecord,
        context: Context,
        parent: Context,
        start: float,
        end: float,
        what: FaultMet | PlannedToxic,
    ) -> Span:
        attributes: dict[str, Value] = {
            **self._place,
            names.ATTEMPT: record.attempt,
            names.FAULT_KIND: record.kind,
            names.FAULT_STAGE: record.stage,
            names.FAULT_LINK: record.link,
            names.FAULT_DOSE: _dose(self._started),
            names.FAULT_SEED: self._started.seed,
        }
        if record.entry:
            attributes[names.FAULT_ID] = record.entry
        if record.stream:
            attributes[names.STREAM] = record.stream
        if record.why_not:
            attributes[names.WHY_NOT] = record.why_not
        return Span(
            f"fault {record.kind}", context, parent, start, end, attributes={**attributes, **_strength(what)}
        )

    # ids

    def _names(self, attempt: int) -> tuple[object, ...]:
        return self._started.run_id, self._trace.episode, attempt

    def _attempt_context(self, attempt: int) -> Context:
        """Return the context that the attempt's command finds in ``TRACEPARENT``."""
        identity = Identity(self._started.run_id, self._trace.episode, attempt)
        context = _parsed(identity.headers("")[TRACEPARENT_HEADER])
        assert context is not None
        return context

    def _unused(self, *parts: object) -> int:
        """Return the span id of these names; a further one if a span has it already."""
        number, span = 0, _id(*parts)
        while span in self._used:
            number += 1
            span = _id(*parts, number)
        self._used.add(span)
        return span


def _strength(what: FaultMet | PlannedToxic) -> dict[str, Value]:
    """Return the status that the fault puts into the reply, and the delay that it adds."""
    if isinstance(what, PlannedToxic):
        latency = what.attributes.get("latency")
        return {names.FAULT_LATENCY_MS: float(latency)} if latency is not None else {}
    strength: dict[str, Value] = {}
    status = (what.shows or {}).get("status")
    if isinstance(status, int):
        strength[names.FAULT_TARGET_STATUS] = status
    if what.delay_ms:
        strength[names.FAULT_LATENCY_MS] = what.delay_ms
    return strength


def _call_attributes(
    link: str, recorded: ToolCalled | None, requests: Sequence[Request]
) -> tuple[str, SpanKind, dict[str, Value]]:
    """Return name, kind and attributes of a call, by the GenAI conventions for models and tools."""
    exchanges = [request.exchange for request in requests if request.exchange is not None]
    if requests and requests[0].of_model:
        return _model_call(link, requests[0].link, exchanges)
    first = requests[0] if requests else None
    of_mcp = next((exchange for exchange in exchanges if exchange.message), None)
    tool = recorded.tool if recorded else of_mcp.tool if of_mcp else ""
    if not tool and first is not None and first.is_of_function:
        tool = first.name
    if tool:
        extra: dict[str, Value] = {names.MCP_METHOD: of_mcp.message} if of_mcp else {}
        kind: dict[str, Value] = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL_NAME: tool,
            names.TOOL_TYPE: names.FUNCTION,
        }
        return f"{names.EXECUTE_TOOL} {tool}", "internal", {**kind, **extra}
    if of_mcp:
        return of_mcp.message, "internal", {names.MCP_METHOD: of_mcp.message}
    return f"call {link}", "internal", {}


def _model_call(
    link: str, wired: Link | None, exchanges: Sequence[Exchange]
) -> tuple[str, SpanKind, dict[str, Value]]:
    dialects = [exchange.dialect for exchange in exchanges if exchange.dialect]
    dialect = dialects[0] if dialects else wired.dialect if wired and wired.dialect != MCP.name else link
    operation = names.operation_of(dialect)
    attributes: dict[str, Value] = {names.OPERATION: operation, names.PROVIDER: names.provider_of(dialect)}
    answered = next((exchange for exchange in reversed(exchanges) if exchange.model), None)
    if answered is not None and answered.model:
        attributes[names.RESPONSE_MODEL] = answered.model
        if answered.tokens_in is not None:
            attributes[names.INPUT_TOKENS] = answered.tokens_in
        if answered.tokens_out is not None:
            attributes[names.OUTPUT_TOKENS] = answered.tokens_out
    return operation, "client", attributes


def _server(link: Link | None) -> dict[str, Value]:
    """Return host and port of the link's upstream; empty where it has no address."""
    parts = urlsplit(link.upstream if link is not None else "")
    if not parts.hostname:
        return {}
    port = {names.SERVER_PORT: parts.port} if parts.port else {}
    return {names.SERVER_ADDRESS: parts.hostname, **port}


def _try_error(request: Request) -> str:
    """Return the kind of the request's failure; empty if it succeeded, or if that is unknown."""
    if request.error:
        return _low_cardinality(request.error)
    if request.status is not None:
        return str(request.status) if request.status >= 400 else ""
    return "no_reply" if request.reply_lost else ""


def _low_cardinality(error: str) -> str:
    """Return the error's kind: its first word, without a message."""
    return error.partition(":")[0].partition(" ")[0][:_MAX_NAME]


def _agent(started: RunStarted) -> str:
    """Return the agent's name without the model behind it, short enough for a span's name."""
    return (started.subject.partition(",")[0] or "agent")[:_MAX_NAME]


def _dose(started: RunStarted) -> float:
    """Return the factor on all probabilities of the run's fault set."""
    return float(started.settings.get("chaos_level", 1.0))


def _key(call: ToolCalled) -> _CallKey:
    return call.link, call.fingerprint, call.call


def _sent_context(exchange: Exchange | None) -> Context | None:
    return _parsed(exchange.traceparent) if exchange is not None else None


def _parsed(traceparent: str) -> Context | None:
    """Return the context in a W3C ``traceparent``; None without a valid one."""
    parts = traceparent.split("-")
    if len(parts) != 4:
        return None
    context = Context(int(parts[1], 16), int(parts[2], 16))
    return context if all(context) else None


def _context(parts: tuple[object, ...]) -> Context:
    return Context(int.from_bytes(digest(*parts, size=16), "big"), _id(*parts))


def _id(*parts: object) -> int:
    return int.from_bytes(digest(*parts), "big")
