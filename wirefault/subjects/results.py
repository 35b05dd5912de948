"""How a subject's answer or exception becomes the result of its attempt.

Crashes are classified by exception; a report may end an answer as JSON; a conversation is held turn by turn.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from wirefault.history.events import ErrorClass, Report
from wirefault.subjects.subject import AttemptContext, ChatMessage, SubjectResult, limit_reached

# By exception names of HTTP clients and SDKs, since a subject may use any of them.
_CLASSES: Mapping[str, ErrorClass] = {
    # built in; requests and aiohttp have some of the same names
    "ConnectionError": "network",
    "TimeoutError": "network",
    "IncompleteRead": "network",
    "gaierror": "network",
    "URLError": "network",
    # requests, urllib3, httpx and httpcore, aiohttp
    "Timeout": "network",
    "ChunkedEncodingError": "network",
    "ProtocolError": "network",
    "MaxRetryError": "network",
    "TransportError": "network",
    "TimeoutException": "network",
    "NetworkError": "network",
    "ClientConnectionError": "network",
    "ClientPayloadError": "network",
    # the SDKs of OpenAI, Groq and Anthropic
    "APIConnectionError": "network",
    "APIStatusError": "server",
    "APIError": "server",
    # urllib and requests, httpx, aiohttp
    "HTTPError": "server",
    "HTTPStatusError": "server",
    "ClientResponseError": "server",
}

# For names without known ancestors: exceptions that the SDKs raise.
_MORE_CLASSES: Mapping[str, ErrorClass] = {
    "APITimeoutError": "network",
    "ConnectError": "network",
    "ConnectTimeout": "network",
    "ReadTimeout": "network",
    "ReadError": "network",
    "RemoteProtocolError": "network",
    "RemoteDisconnected": "network",
    "ConnectionRefusedError": "network",
    "ConnectionResetError": "network",
    "InternalServerError": "server",
    "RateLimitError": "server",
    "ServerError": "server",
}

_NO_MEMORY = "its process ran out of memory"


def crash_result(error: Exception) -> SubjectResult:
    """Return the result of an attempt that this exception ended.

    A client may raise its own exception from a ``MemoryError``, which then is the result's.
    """
    if any(isinstance(cause, MemoryError) for cause in _raised_from(error)):
        return SubjectResult("exception", error_type="MemoryError", error=_NO_MEMORY, error_class="agent")
    name, text = type(error).__name__, str(error)
    return SubjectResult("exception", error_type=name, error=text, error_class=_class_of(error))


def error_class_in(message: str) -> ErrorClass:
    """Return the error class of a message that begins with an exception: ``httpx.ReadTimeout: timed out``."""
    name = message.partition(":")[0].rpartition(".")[2].strip()
    return _CLASSES.get(name, _MORE_CLASSES.get(name, "agent"))


def _class_of(error: BaseException) -> ErrorClass:
    """Return the class of the exception or its nearest classified cause; ``agent`` if none is known."""
    for cause in _raised_from(error):
        for ancestor in type(cause).__mro__:  # from the most specific one
            if ancestor.__name__ in _CLASSES:
                return _CLASSES[ancestor.__name__]
    return "agent"


def _raised_from(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


_STATUSES = ("done", "failed", "unsure")
_FENCE = "```"
# how many braces from the end a report may begin
_MAX_BRACES = 500
_MAX_REPORT = 64 * 1024


def answer_result(answer: object) -> SubjectResult:
    """Return the result of an attempt with this answer, a text or a JSON value.

    ``{"response": text}`` is that text.
    """
    answer = plain_answer(answer)
    if not isinstance(answer, str):
        report = as_report(answer)
        text = "" if answer is None else json.dumps(answer, ensure_ascii=False, default=str)
    else:
        report, text = read_report(answer), answer.strip()
    if report is not None:
        return SubjectResult("report", report, report.answer)
    return SubjectResult("text" if text else "empty", response=text)


def plain_answer(answer: object) -> object:
    """Return the text of ``{"response": text}``; anything else unchanged."""
    if isinstance(answer, Mapping) and "status" not in answer:
        response = answer.get("response")
        return response if isinstance(response, str) else answer
    return answer


def read_report(answer: str) -> Report | None:
    """Return the report that ends the answer, with or without a code fence; None if there is none."""
    text = answer.rstrip().removesuffix(_FENCE).rstrip()[-_MAX_REPORT:]
    if not text.endswith("}"):
        return None
    decoder, start = json.JSONDecoder(), len(text)
    for _ in range(_MAX_BRACES):
        start = text.rfind("{", 0, start)
        if start < 0:
            return None
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):  # a brace inside a string or prose
            continue
        if end == len(text):
            return as_report(value)
    return None


def as_report(value: object) -> Report | None:
    """Return a JSON value as a report; None if it is not a valid one."""
    if not isinstance(value, Mapping):
        return None
    status, answer, values = value.get("status"), value.get("answer"), value.get("values", [])
    if status not in _STATUSES or not isinstance(answer, str) or not isinstance(values, list):
        return None
    entries = [_value(entry) for entry in values]
    if None in entries:
        return None
    return Report(status, answer, [entry for entry in entries if entry is not None])


def _value(entry: object) -> dict[str, Any] | None:
    """Return one value with its unit, as ``Report`` has them; None if it is invalid."""
    if not isinstance(entry, Mapping) or not entry.keys() <= {"value", "unit"}:
        return None
    value, unit = entry.get("value"), entry.get("unit")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return {"value": value, "unit": unit} if unit is None or isinstance(unit, str) else None


def value_at(value: Any, path: str) -> Any:
    """Return the value at a path such as ``choices.0.message``; ``""`` is the whole value.

    Raises ``LookupError`` with the part of the path that is missing.
    """
    parts = path.split(".") if path else []
    for number, part in enumerate(parts, start=1):
        try:
            value = value[int(part)] if isinstance(value, list) else dict(value)[part]
        except (LookupError, TypeError, ValueError):
            raise LookupError(".".join(parts[:number])) from None
    return value


def last_object(text: str) -> dict[str, Any] | None:
    """Return the last line that is a JSON object, None if there is none."""
    for line in reversed(text.splitlines()):
        if line.strip().startswith("{"):
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, dict):
                return value
    return None


class AttemptOver(Exception):
    """The subject did not answer a turn; ``result`` is the attempt's result."""

    def __init__(self, result: SubjectResult) -> None:
        super().__init__(result.error)
        self.result = result


# Sends one turn: its text, its number from 1, and the seconds left. Returns the answer, a text or a JSON
# value, or the turn's result. Raises ``AttemptOver``.
Turn = Callable[[str, int, float], object]


def converse(
    prompt: str,
    context: AttemptContext,
    turn: Turn,
    clock: Callable[[], float] = time.monotonic,
    now: Callable[[], float] = time.time,
) -> SubjectResult:
    """Send the turns one by one; return the last turn's result with all answers.

    The time to make a turn does not count towards the attempt's limit.
    """
    limit, begun = context.settings.attempt_time, clock()
    conversation: list[ChatMessage] = []
    ends: list[float] = []
    result, answered = SubjectResult("empty"), begun
    try:
        for number, text in enumerate(_turns(prompt, context, conversation), start=1):
            begun += clock() - answered
            seconds = begun + limit - clock()
            if seconds <= 0:
                raise AttemptOver(limit_reached(limit))
            if number > 1:
                context.begin_turn(number, text)
            answer = plain_answer(turn(text, number, seconds))
            answered = clock()
            result = answer if isinstance(answer, SubjectResult) else answer_result(answer)
            conversation += [
                {"role": "user", "content": text},
                {"role": "assistant", "content": _reply_text(answer)},
            ]
            ends.append(now())
    except AttemptOver as over:
        result = over.result
    if not context.turns and context.make_turn is None:
        return result
    answers = tuple(message["content"] for message in conversation[1::2])
    return replace(result, answers=answers, turn_ends=tuple(ends))


def _reply_text(answer: object) -> str:
    if isinstance(answer, SubjectResult):
        return answer.response
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, default=str)


def _turns(prompt: str, context: AttemptContext, conversation: list[ChatMessage]) -> Iterator[str]:
    """Yield the user's turns; ``conversation`` holds the messages so far."""
    yield from context.turns or (prompt,)
    while context.make_turn is not None and (text := context.make_turn(conversation)) is not None:
        yield text


def conversation_id(context: AttemptContext) -> str:
    """Return a name for the attempt's conversation that no other attempt has."""
    identity = context.identity
    return f"{identity.run}-{identity.episode}-{identity.attempt}"
