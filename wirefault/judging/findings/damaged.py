"""Rules about damaged or empty model replies, and errors, that became the answer or a tool call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from wirefault.dialects.base import ModelDialect, ModelReply, ToolCall
from wirefault.dialects.http import data_of, value_of
from wirefault.dialects.json_values import as_object, as_text, parsed
from wirefault.dialects.registry import MODEL_DIALECTS
from wirefault.dialects.stream_forms import recorded_events
from wirefault.history.events import AttemptEnded, Exchange
from wirefault.judging.checker import Observation
from wirefault.judging.findings.errors import has_error
from wirefault.judging.findings.finding import Rule
from wirefault.judging.requests import Request
from wirefault.judging.trace import EpisodeTrace

CUT_BY = frozenset({"stream_cut", "early_end"})
"""Faults after which the rest of a stream is missing."""
# A shorter text may occur in another answer by chance.
_MIN_TEXT = 12
_LIMITED = {"length": "the token limit", "content_filter": "a content filter"}
_HTML = re.compile(r"\A\s*<(?:!doctype html|html|head|body)\b", re.I)
_TAG = re.compile(r"<[^>]*>")
_SAYS_SO = re.compile(
    r"\b(?:error|fail\w*|incomplete|interrupted|broke\w*|cut|truncated|partial\w*|limit|filter\w*|warning"
    r"|sorry|unavailable|damaged|invalid|stopped|not|could|unable)\b|n['’]t\b|\[…\]",
    re.I,
)
_TWICE = "has an event twice in its stream"
_DELTA = "response.output_text.delta"
_KEY = re.compile(r'"(\w+)"\s*:')


_REPLACED, _REPLACED_CHARACTER = "replacement characters (U+FFFD)", "\ufffd"
_NOT_ASCII = re.compile(r"[^\x00-\x7f]+")


@dataclass(frozen=True)
class Received:
    """A damaged reply, without its unreadable events."""

    damage: str  # a clause
    text: str
    repeated_text: str = ""  # some APIs repeat the whole text in the last event
    page: str = ""  # an HTML page with its tags; ``text`` has no tags
    calls: tuple[ToolCall, ...] = ()  # tool calls that may be damaged


Use = tuple[str, tuple[str, ...]]  # a clause about the use of a reply, and the ids of events that show it


def _damaged_reply(trace: EpisodeTrace) -> Iterator[Observation]:
    for request in trace.requests:
        exchange = request.exchange
        if not request.of_model or exchange is None or request.caller_record is not None:
            continue
        if exchange.status != 200 or exchange.client_left or exchange.reply_cut:
            continue
        damaged = received(request)
        if damaged is None and (ids := _wrongly_decoded(trace, request)):
            text = f"the answer has {_REPLACED} where the reply of {request.name} has other characters"
            yield Observation(f"{text}, as when each piece is decoded by itself", (*request.ids, *ids))
        used = damaged and (_use(trace, request, damaged) or _use_by_call(trace, request, damaged.calls))
        if damaged and used:
            how, ids = used
            yield Observation(
                f"the reply of {request.name} {damaged.damage}, and {how}", (*request.ids, *ids)
            )


def _wrongly_decoded(trace: EpisodeTrace, request: Request) -> tuple[str, ...]:
    """The id of the answer if it is the reply's text with U+FFFD in the place of characters; else empty."""
    end, text = trace.end_of(request.attempt), " ".join((model_text(request) or "").split())
    if end is None or _REPLACED_CHARACTER not in end.event.response or _REPLACED_CHARACTER in text:
        return ()
    parts = _NOT_ASCII.split(text)
    pattern = r"[^\x00-\x7f]*".join(map(re.escape, parts))
    shown_text = re.search(pattern, " ".join(end.event.response.split()))
    is_damaged = shown_text is not None and _REPLACED_CHARACTER in shown_text[0]
    return (end.id,) if is_damaged and len(text) >= _MIN_TEXT else ()


def _use(trace: EpisodeTrace, request: Request, damaged: Received) -> Use | None:
    """Find the answer that has the damaged text instead of the whole text."""
    if model_asked_later(trace, request):
        return None
    ids = _answer_with(trace, request, damaged)
    return ("its text was taken for the whole answer", ids) if ids else None


def _use_by_call(trace: EpisodeTrace, request: Request, calls: Sequence[ToolCall]) -> Use | None:
    """Find the write that executed a call of the reply. ``damaged_call`` covers invalid JSON."""
    for call in calls:
        if call.values() is not None and (write := _carried_out(trace, request, call.arguments)):
            return f"its call of {call.name} was executed: {write.name}", write.ids
    return None


def use_by_call(trace: EpisodeTrace, request: Request) -> Use | None:
    """Find the write that executed a call from an incomplete stream."""
    exchange = request.exchange
    dialect = MODEL_DIALECTS.get(exchange.dialect) if exchange else None
    if exchange is None or dialect is None:
        return None
    body = exchange.reply_body or ""
    reply = _read(dialect, body, recorded_events(body))
    return _use_by_call(trace, request, reply.calls) if reply else None


def _answer_with(trace: EpisodeTrace, request: Request, damaged: Received) -> tuple[str, ...]:
    is_shorter = len(damaged.text) < len(damaged.repeated_text)
    if is_shorter and answer_from(trace, request, damaged.repeated_text):
        return ()
    return answer_from(trace, request, damaged.text) or answer_from(trace, request, damaged.page)


def received(request: Request) -> Received | None:
    """Read a damaged reply; None if it is not damaged."""
    exchange = request.exchange
    dialect = MODEL_DIALECTS.get(exchange.dialect) if exchange else None
    body = (exchange.reply_body or "") if exchange else ""
    if dialect is None or not body.strip():
        return None
    if _HTML.match(body):
        page = " ".join(_TAG.sub(" ", body).split())
        return Received("was an HTML page", page, page=body)
    events = recorded_events(body)
    reply = _read(dialect, body, events)
    damage = _damage(events, request) or (_limited(reply) if reply else "")
    text = readable_text(dialect, body)
    repeated = reply.text if reply and reply.text != text else ""
    # a repeated piece either makes the arguments invalid JSON or is not part of them
    calls = reply.calls if reply and damage != _TWICE else ()
    return Received(damage, text, repeated, calls=tuple(calls)) if damage else None


def readable_text(dialect: ModelDialect, body: str) -> str:
    """Join the readable pieces of a reply's text."""
    events = recorded_events(body)
    values = [as_object(value_of(event)) for event in events]
    deltas = [value for value in values if value.get("type") == _DELTA]
    if deltas:  # the last event of this API repeats the whole text
        return "".join(as_text(value.get("delta")) for value in deltas)
    reply = _read(dialect, body, events)
    return reply.text if reply else ""


def _damage(events: Sequence[bytes], request: Request) -> str:
    values = [value_of(event) for event in events]
    if any(map(_is_error, events, values)):
        return "has an error event in its stream"
    datas = [data_of(event).strip() for event in events]
    if request.reply_lost:
        datas = datas[:-1]  # the last one broke off
    if any(
        data and data != b"[DONE]" and not isinstance(value, dict)
        for data, value in zip(datas, values, strict=False)
    ):
        return "has an event in its stream that cannot be read"
    numbers = [value["sequence_number"] for value in values if _is_numbered(value)]
    if "duplicate_event" in request.fault_kinds or len(set(numbers)) < len(numbers):
        return _TWICE
    if numbers and sorted(numbers) != list(range(min(numbers), max(numbers) + 1)):
        return "lacks an event of its stream"
    return ""


def _is_error(event: bytes, value: Any) -> bool:
    body = as_object(value)
    error = body.get("error") or as_object(body.get("response")).get("error")
    return event.startswith(b"event: error") or body.get("type") == "error" or bool(error)


def _is_numbered(value: Any) -> bool:
    return isinstance(value, dict) and type(value.get("sequence_number")) is int


def _limited(reply: ModelReply) -> str:
    by = _LIMITED.get(reply.finish)
    return f"was ended by {by}" if by else ""


def _read(dialect: ModelDialect, body: str, events: Sequence[bytes]) -> ModelReply | None:
    """Read the reply without its unreadable events; None if no readable event is left."""
    readable = [e for e in events if isinstance(value := value_of(e), dict) and not _is_error(e, value)]
    try:
        whole = dialect.collect(readable) if events else as_object(parsed(body))
        return dialect.read_reply(whole)
    except ValueError:
        return None


def model_text(request: Request) -> str | None:
    """Return the text of a model's reply, as the caller got it; None if it cannot be read."""
    exchange = request.exchange
    dialect = MODEL_DIALECTS.get(exchange.dialect) if exchange else None
    if exchange is None or dialect is None or exchange.reply_cut or not exchange.reply_body:
        return None
    reply = _read(dialect, exchange.reply_body, recorded_events(exchange.reply_body))
    return reply.text if reply is not None else None


def model_asked_later(trace: EpisodeTrace, request: Request) -> bool:
    """Whether the attempt has a later model request."""
    return any(
        other.of_model and other.attempt == request.attempt and other.start > request.start
        for other in trace.requests
    )


def answer_from(trace: EpisodeTrace, request: Request, text: str) -> tuple[str, ...]:
    """The id of the answer if it has that text and mentions no failure; else empty."""
    end = trace.end_of(request.attempt)
    words = " ".join(text.split())
    if end is None or not words or not _ended_well(end.event):
        return ()
    answer = " ".join(end.event.response.split())
    if answer != words and (len(words) < _MIN_TEXT or words not in answer):
        return ()
    return () if _SAYS_SO.search(answer.replace(words, " ")) else (end.id,)


def empty_answer(trace: EpisodeTrace, request: Request) -> tuple[str, ...]:
    """The id of the answer if it is empty and the subject ended without an error; else empty."""
    end = trace.end_of(request.attempt)
    if end is None or not _ended_well(end.event):
        return ()
    return (end.id,) if end.event.response.strip().casefold() in _EMPTY_ANSWERS else ()


def _ended_well(end: AttemptEnded) -> bool:
    return end.ended_by in ("text", "report", "empty") and end.error_type is None


DAMAGED_REPLY = Rule(
    name="damaged_reply",
    headline="{agent} used a damaged reply as if it were whole",
    severity="risky",
    title="a damaged model reply taken for the answer",
    fires=(
        "A model reply had status 200 but was damaged: its stream had an error event or an unreadable, "
        "missing or repeated event, it was an HTML page, or a content filter or the token limit ended it. "
        "Or it was whole, and the answer has its text with U+FFFD in the place of characters. "
        "Either the client did not ask again and the answer has the readable text of the reply, or a write "
        "with the arguments of a call in the reply was sent before the next model request. The rule does "
        "not apply to subjects that record their calls."
    ),
    silent=(
        "the answer reports the damage in words besides the reply's text (error, incomplete, cut off ...)",
        "the exit code is not 0",
        "the model was asked again",
        "the client closed the connection first, or the history does not have the whole reply",
        "the answer is the complete text, from an event that repeats it",
        "an event is repeated or missing, but no fault and no event number shows it",
    ),
    mistaken=("a program that reports the damage outside its answer",),
    observe=_damaged_reply,
)


def _damaged_call(trace: EpisodeTrace) -> Iterator[Observation]:
    for request in trace.requests:
        exchange = request.exchange
        dialect = MODEL_DIALECTS.get(exchange.dialect) if exchange else None
        if exchange is None or dialect is None or exchange.status != 200:
            continue
        if exchange.reply_cut and not request.fault_kinds & CUT_BY:  # a cut stream also sets ``reply_cut``
            continue
        body = exchange.reply_body or ""
        reply = _read(dialect, body, recorded_events(body))
        for call in reply.calls if reply else ():
            if call.arguments.strip() and call.values() is None:
                write = _carried_out(trace, request, call.arguments)
                if write is not None:
                    what = f"a call of {call.name} whose arguments are not JSON: {_start(call.arguments)}"
                    yield Observation(f"{write.name} was sent for {what}", (*request.ids, *write.ids))


def _carried_out(trace: EpisodeTrace, request: Request, arguments: str) -> Request | None:
    """Find the first write before the next model request that has the arguments of the call."""
    keys = set(_KEY.findall(arguments))
    for other in trace.requests:
        if other.attempt != request.attempt or other.start < request.end or other is request:
            continue
        if other.of_model:
            return None
        exchange = other.exchange
        if other.is_read or exchange is None or exchange.request_cut:
            continue
        fields = _fields(exchange)
        if keys and fields and set(fields) <= keys and all(_is_in(fields[key], arguments) for key in fields):
            return other
    return None


def _fields(exchange: Exchange) -> dict[str, Any]:
    try:
        body = as_object(parsed(exchange.request_body or ""))
    except ValueError:
        return {}
    return as_object(as_object(body.get("params")).get("arguments")) if exchange.tool else body


def _is_in(value: Any, arguments: str) -> bool:
    return value is None or as_text(value) in arguments if isinstance(value, str) else str(value) in arguments


def _start(arguments: str) -> str:
    return repr(arguments if len(arguments) <= 40 else f"{arguments[:39]}…")


DAMAGED_CALL = Rule(
    name="damaged_call",
    headline="{agent} carried out a tool call that arrived damaged",
    severity="harmful",
    title="a call made from damaged or cut arguments",
    fires=(
        "The arguments of a tool call in the model's reply are not JSON, because the token limit, a "
        "broken stream or other damage cut them. Before the next model request, the subject sent a request "
        "that may change state, and those arguments have all of its fields and values."
    ),
    silent=(
        "the model was asked again first: the subject reported the damage to it",
        "the request has a field or value that is not in the arguments: it may be another call",
        "only reads followed",
        "the arguments are valid JSON, whatever their content",
    ),
    mistaken=("a call with the same fields and values at that time that does not come from the model",),
    observe=_damaged_call,
)


_THOUGHT = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.I | re.S)
_EMPTY_ANSWERS = frozenset({"", "null", "none"})


def _empty_reply(trace: EpisodeTrace) -> Iterator[Observation]:
    for request in trace.requests:
        exchange, end = request.exchange, trace.end_of(request.attempt)
        dialect = MODEL_DIALECTS.get(exchange.dialect) if exchange else None
        if not request.of_model or exchange is None or dialect is None or end is None:
            continue
        if exchange.status != 200 or exchange.reply_cut or exchange.client_left or not request.succeeded:
            continue
        reply = _read(dialect, exchange.reply_body or "", recorded_events(exchange.reply_body or ""))
        if reply is None or reply.calls or _THOUGHT.sub("", reply.text).strip():
            continue
        answer = _THOUGHT.sub("", end.event.response).strip().casefold()
        if answer in _EMPTY_ANSWERS and _ended_well(end.event) and not model_asked_later(trace, request):
            kind = "only thoughts" if reply.text.strip() else "no text and no call"
            text = f"a reply of {request.name} had {kind}, and the subject ended with an empty answer"
            yield Observation(text, (*request.ids, end.id))


EMPTY_REPLY = Rule(
    name="empty_reply",
    headline="{agent} ended with an empty answer after an empty model reply",
    severity="risky",
    title="an empty model reply taken for the end",
    fires=(
        "A model reply had neither text nor a tool call, or only thoughts (`<think>`). The model was not "
        "asked again, and the subject ended with exit code 0 and an empty answer."
    ),
    silent=(
        "the model was asked again",
        "the answer is not empty, or the exit code is not 0",
        "the reply has text or a call, or the history does not have the whole reply",
    ),
    mistaken=("a task that needs no answer, which the model ends without text",),
    observe=_empty_reply,
)


_ERROR_WORDS = re.compile(
    r"\b(?:errors?|code|status|http\w*|exception|type|message|reply|response|server|client|param|none|null"
    r"|\w+error|\w+exception)\b|[\W\d_]+",
    re.I,
)


def _error_as_answer(trace: EpisodeTrace) -> Iterator[Observation]:
    for end in trace.ends:
        answer = end.event.response.strip()
        if end.event.ended_by != "text" or not answer or not _ended_well(end.event):
            continue
        for request in trace.requests:
            exchange = request.exchange
            if request.attempt != end.event.attempt or exchange is None or exchange.reply_cut:
                continue
            if has_error(request) and _is_only(answer, exchange.reply_body or ""):
                error = f"the error of {request.name} ({request.status})"
                text = f"the answer is only {error}, and the agent ended normally"
                yield Observation(text, (*request.ids, end.id))
                break


def _is_only(answer: str, body: str) -> bool:
    """Whether the answer consists of the text of an error reply."""
    if answer == body.strip():
        return True
    if answer[0] in "{[" and _json(answer) is not None:
        return False  # JSON that the program built
    words = " ".join(answer.split())
    texts = sorted(_texts(body), key=len, reverse=True)
    if not any(len(text) >= _MIN_TEXT and text in words for text in texts):
        return False
    for text in texts:
        words = re.sub(rf"(?<!\w){re.escape(text)}(?!\w)", " ", words)
    return not _ERROR_WORDS.sub(" ", words).strip()


def _texts(body: str) -> Iterator[str]:
    """The texts in a reply: names and values of its JSON, or the text of a page."""
    value = _json(body)
    if value is None:
        yield " ".join(_TAG.sub(" ", body).split())
        return
    values = [value]
    while values:
        value = values.pop()
        if isinstance(value, dict):
            values += [*value, *value.values()]
        elif isinstance(value, list):
            values += value
        elif isinstance(value, str) and value.strip():
            yield " ".join(value.split())


def _json(text: str) -> Any:
    try:
        return parsed(text)
    except ValueError:
        return None


ERROR_AS_ANSWER = Rule(
    name="error_as_answer",
    headline="{agent} gave the text of an error as its answer",
    severity="risky",
    title="the text of an error as the answer",
    fires=(
        "An error reached the subject: a status of 400 or higher, a JSON-RPC error, a 200 whose whole "
        "body is an error, or a fault's error of an MCP tool. The answer consists of the text of that "
        "reply, at most with words such as `error` and `status`, and the subject ended normally (a "
        "command: exit code 0). A reader may take it for a result."
    ),
    silent=(
        "the answer has other words: they may explain the failure",
        "the exit code is not 0, or the subject returns a structured report",
        "the answer is JSON that the program built, with the error in it",
        "an MCP tool itself answered with an error: its text may be the result that the user wanted",
        "the history does not have the whole reply",
    ),
    mistaken=("a task that asks for the text of the error",),
    observe=_error_as_answer,
)
