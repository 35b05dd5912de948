"""Rules about incomplete replies: a cut stream accepted as complete, a hang without a time limit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from wirefault.dialects.json_values import as_object, parsed
from wirefault.dialects.outages import has_end
from wirefault.dialects.registry import MODEL_DIALECTS
from wirefault.dialects.stream_forms import recorded_events
from wirefault.history.events import AttemptEnded, FaultMet, ModelCall, SocketMessage
from wirefault.judging.checker import Observation
from wirefault.judging.findings.damaged import (
    CUT_BY,
    Use,
    answer_from,
    empty_answer,
    model_asked_later,
    readable_text,
    received,
    use_by_call,
)
from wirefault.judging.findings.finding import Rule, span_in_words
from wirefault.judging.requests import Request
from wirefault.judging.trace import EpisodeTrace

_CREATE, _TEXT_DELTA = "response.create", "text.delta"
_RESPONSE_ENDS = frozenset(
    {"response.done", "response.completed", "response.failed", "response.incomplete", "error"}
)
_STALLS = frozenset({"hang", "stream_hang", "api_timeout"})
# A request that began shortly before the end had no time to reach a limit.
_MIN_WAIT_S = 5.0
_TOLERANCE_S = 0.5


def _open_stream(trace: EpisodeTrace) -> Iterator[Observation]:
    yield from _open_socket(trace)
    repeated = {id for group in trace.repeated for request in group[:-1] for id in request.ids}
    for request in trace.requests:
        if not request.of_model or request.exchange is None or request.ids[0] in repeated:
            continue
        used = _has_no_end(request) and (
            _use_by_record(trace, request) or _use_by_answer(trace, request) or _use_by_write(trace, request)
        )
        if used:
            how, ids = used
            text = f"the stream of {request.name} ended without its finish reason, and {how}"
            yield Observation(text, (*request.ids, *ids))
        elif part := _use_of_part(trace, request):
            text = f"limit_data cut the stream of {request.name}, and its first part was taken for the whole"
            yield Observation(f"{text} answer", (*request.ids, *part))


def _open_socket(trace: EpisodeTrace) -> Iterator[Observation]:
    """Find answers over a WebSocket whose connection ended before the event that finishes the response."""
    by_call: defaultdict[tuple[int, str, int], list[tuple[str, SocketMessage]]] = defaultdict(list)
    for id, event in trace.records:
        if isinstance(event, SocketMessage):
            by_call[event.attempt, event.link, event.call].append((id, event))
    for request in trace.requests:
        exchange = request.exchange
        if exchange is None or exchange.status != 101 or exchange.client_left:
            continue
        messages = by_call[exchange.attempt, exchange.link, exchange.call]
        text = _unfinished_text([message for _, message in messages], exchange.server_messages)
        if text is None or _asked_later(trace, request):
            continue
        used = answer_from(trace, request, text) if text.strip() else empty_answer(trace, request)
        if used:
            how = (
                "was taken for the whole answer" if text.strip() else "the subject ended with an empty answer"
            )
            cut = f"the response over the WebSocket of {request.name} ended without its last event"
            yield Observation(f"{cut}, and {how}", (*request.ids, messages[-1][0], *used))


def _unfinished_text(messages: Sequence[SocketMessage], count: int) -> str | None:
    """The text of the last response, as far as the client got it; None if it was finished, or is unknown."""
    starts = [n for n, each in enumerate(messages) if each.sender == "client" and each.type == _CREATE]
    if not starts or max((each.number for each in messages if each.sender == "server"), default=0) < count:
        return None
    pieces: list[str] = []
    for each in messages[starts[-1] :]:
        if each.sender == "client" or each.fate in ("dropped", "replaced", "cut"):
            continue
        if each.type in _RESPONSE_ENDS:
            return None
        if each.type.endswith(_TEXT_DELTA):
            piece = as_object(_json(each.text)).get("delta")
            if not isinstance(piece, str):
                return None
            pieces.append(piece)
    return "".join(pieces)


def _json(text: str | None) -> Any:
    try:
        return parsed(text or "")
    except ValueError:
        return None


def _asked_later(trace: EpisodeTrace, request: Request) -> bool:
    """Whether the model was asked again, over HTTP or another WebSocket."""
    return model_asked_later(trace, request) or any(
        event.type == _CREATE and event.attempt == request.attempt and event.t > request.end
        for event in trace.all(SocketMessage)
    )


def _has_no_end(request: Request) -> bool:
    """Whether the stream stopped before its end while the client was still connected."""
    exchange = request.exchange
    if exchange is None or exchange.client_left or exchange.status != 200:
        return False
    if _was_cut(request):
        return True
    dialect = MODEL_DIALECTS.get(exchange.dialect)
    body = exchange.reply_body or ""
    events = recorded_events(body)
    if dialect is None or exchange.reply_cut or not events:
        return False
    return not has_end(dialect, events)


def _was_cut(request: Request) -> bool:
    return any(fault.kind in CUT_BY and not fault.why_not for fault in request.injected)


def _use_by_record(trace: EpisodeTrace, request: Request) -> tuple[str, tuple[str, ...]] | None:
    """How a subject that records its calls used the stream without an error: a tool call or an answer."""
    call = request.caller_record
    if not isinstance(call, ModelCall) or call.error is not None:
        return None
    made = [c for c in trace.calls if (c.event.attempt, c.event.reply) == (call.attempt, call.ordinal)]
    if made:
        return f"its call of {made[0].event.tool} was executed", (made[0].id,)
    end = trace.end_of(call.attempt)
    if end is None or model_asked_later(trace, request) or end.event.ended_by not in ("report", "text"):
        return None
    return "was taken for the whole answer", (end.id,)


def _use_by_answer(trace: EpisodeTrace, request: Request) -> tuple[str, tuple[str, ...]] | None:
    """Find the answer that has the words of the stream, if no later model request was sent."""
    exchange = request.exchange
    dialect = MODEL_DIALECTS.get(exchange.dialect) if exchange else None
    if exchange is None or request.caller_record is not None or dialect is None:
        return None
    if exchange.reply_cut and not _was_cut(request):  # a cut stream also sets ``reply_cut``
        return None
    if model_asked_later(trace, request) or received(request) is not None:
        return None  # ``damaged_reply`` covers a damaged stream
    ids = answer_from(trace, request, readable_text(dialect, exchange.reply_body or ""))
    return ("was taken for the whole answer", ids) if ids else None


def _use_of_part(trace: EpisodeTrace, request: Request) -> tuple[str, ...]:
    """Return the id of the answer that is the beginning of a stream which a toxic cut behind the gateway."""
    exchange, end = request.exchange, trace.end_of(request.attempt)
    dialect = MODEL_DIALECTS.get(exchange.dialect) if exchange else None
    if exchange is None or dialect is None or end is None or request.caller_record is not None:
        return ()
    body = exchange.reply_body or ""
    if not trace.on_replies.must_have_cut(request) or exchange.reply_cut or not recorded_events(body):
        return ()
    whole, answer = (" ".join(text.split()) for text in (readable_text(dialect, body), end.event.response))
    if answer == whole or not whole.startswith(answer) or model_asked_later(trace, request):
        return ()
    return answer_from(trace, request, answer)


def _use_by_write(trace: EpisodeTrace, request: Request) -> Use | None:
    """Find the write that executed a call of the stream before the next model request."""
    if request.caller_record is not None or received(request) is not None:
        return None
    return use_by_call(trace, request)


OPEN_STREAM = Rule(
    name="open_stream",
    headline="{agent} used a reply whose stream had broken off",
    severity="risky",
    title="an incomplete stream accepted as complete",
    fires=(
        "An event stream of the model stopped before its finish reason. The client was connected until "
        "then, did not ask again, and used the part that had arrived: it executed a tool call in it, or "
        "returned it as the answer. The same over a WebSocket (`/v1/realtime`, `/v1/responses`): the "
        "connection ended after `response.create`, before the event that finishes the response; there an "
        "empty answer with exit code 0 counts, too. If the subject does not record its calls, only two "
        "signs count: an answer with the words of the stream, or, before the next model request, a "
        "write with the arguments of a call in the stream."
    ),
    silent=(
        "the client closed the connection first: it needed no more of the stream",
        "the client reported an error, or repeated the request",
        "the answer reports it in words besides the stream's text (error, incomplete, cut off ...)",
        "the history has neither the stream's body nor the fault that cut it",
        "nothing shows that the part was used",
        "a toxic cut the connection behind the gateway, whose history has the whole stream: only of "
        "`limit_data`, and of an answer that is the beginning of the stream's text, is it known",
    ),
    mistaken=("a server that never sends a finish reason and ends its streams by closing them",),
    observe=_open_stream,
)


def _no_time_limit(trace: EpisodeTrace) -> Iterator[Observation]:
    for request in trace.requests:
        yield from _hang_ended(trace, request)
    for end in trace.ends:
        if end.event.ended_by != "limit" or not _time_was_over(trace, end.event):
            continue
        for request in trace.requests:
            since = _stalled_since(request)
            if request.attempt != end.event.attempt or since is None:
                continue
            if request.end >= end.event.end - _TOLERANCE_S and end.event.end - since >= _MIN_WAIT_S:
                text = (
                    f"{request.name} did not get {_missing(request)}: its client was still connected after "
                    f"{span_in_words(end.event.end - since)}, when the attempt's "
                    f"{end.event.ms / 1000:.0f} s were over"
                )
                yield Observation(text, (*request.ids, end.id))


def _hang_ended(trace: EpisodeTrace, request: Request) -> Iterator[Observation]:
    """Report how the wait for a hanging reply ended: by the lab, or (a note) by the client's limit."""
    closed_after = next((seconds for f in request.injected if (seconds := _closed_after(f))), None)
    if closed_after is not None and closed_after >= _MIN_WAIT_S:
        text = (
            f"{request.name} did not get {_missing(request)}: its client was still connected after "
            f"{span_in_words(closed_after)}, when the lab closed the connection"
        )
        yield Observation(text, request.ids)
    end, since = trace.end_of(request.attempt), _hangs_since(request)
    if since is None or not request.client_left or end is None or end.event.ended_by == "limit":
        return
    text = (
        f"{request.name} did not get {_missing(request)}, and its client "
        f"{'left' if request.given_up is None else 'sent it again'}: "
        f"its limit is {_at_most(request)}{span_in_words(request.end - since)}"
    )
    yield Observation(text, request.ids, "note", "{agent} gave up on {call} in time")


def _at_most(request: Request) -> str:
    """Over stdio, and where it was sent again, a client may have given up before that showed."""
    return "at most " if request.given_up is not None or request.is_over_stdio else ""


def _closed_after(fault: FaultMet) -> float | None:
    """Seconds until the gateway closed the hanging connection; None if it did not."""
    seconds = fault.evidence.get("closed_after_s")
    return seconds if isinstance(seconds, int | float) else None


def _missing(request: Request) -> str:
    return "the rest of its answer" if request.exchange and request.exchange.reply_bytes else "its answer"


def _time_was_over(trace: EpisodeTrace, end: AttemptEnded) -> bool:
    """Whether the time limit ended the attempt, not the number of calls."""
    return trace.attempt_seconds > 0 and end.ms / 1000 >= trace.attempt_seconds - _TOLERANCE_S


def _stalled_since(request: Request) -> float | None:
    """When the client's wait began; None if the reply is complete, or if the time is unknown.

    Subjects that record their calls have time limits.
    """
    exchange = request.exchange
    if exchange is None or request.caller_record is not None or exchange.reply_complete:
        return None
    since = _hangs_since(request)
    return since if since is not None or exchange.reply_bytes else request.start


def _hangs_since(request: Request) -> float | None:
    """When a fault stalled the reply; None without such a fault, or if the subject records its calls."""
    exchange = request.exchange
    if exchange is None or request.caller_record is not None:
        return None
    hangs = (fault.acted_ms for fault in request.injected if fault.kind in _STALLS)
    return next((exchange.start + acted / 1000 for acted in hangs if acted is not None), None)


NO_TIME_LIMIT = Rule(
    name="no_time_limit",
    headline="{agent} waited for {call} without a time limit",
    severity="risky",
    title="no time limit: waited for a hang until the lab ended it",
    fires=(
        "A fault made a client wait, and the client was still connected when the gateway closed the "
        "connection, by default after 65 s. The rule also fires if the attempt's time ran out while the "
        "client was still connected and had waited for at least 5 s, either for the first byte of a reply "
        "or for the rest of a reply that a fault had stalled. The time counts from the fault. If the client "
        "closed the connection, a note gives its limit."
    ),
    silent=(
        "the client closed the connection first: the rule gives a note at most",
        "the attempt ended normally, or by another limit",
        "a part of the reply had arrived, and no fault stalled it: the client's wait is unknown",
        "the subject records its calls with their time limits, as the lab's own agent does",
    ),
    mistaken=(
        "a client with a time limit longer than 65 s, or longer than the attempt's (`ATTEMPT_TIME`)",
        "a request that the subject does not wait for: a background request or a long poll",
    ),
    observe=_no_time_limit,
)
