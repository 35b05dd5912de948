"""A subject's exception as the result of its attempt, with what failed: agent, server or network."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from wirefault.history.events import ErrorClass, Report
from wirefault.subjects.subject import AttemptContext, Said, SubjectResult, limit_reached

# By the names that HTTP clients and SDKs give their exceptions, since a subject may use any of them.
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

# Where only the name is known, and not the ancestors: those that the SDKs raise.
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


def crash_of(error: Exception) -> SubjectResult:
    """The result of an attempt that this exception ended."""
    name, text = type(error).__name__, str(error)
    return SubjectResult("exception", error_type=name, error=text, error_class=_class_of(error))


def error_class_in(message: str) -> ErrorClass:
    """What failed, by the exception's name that a message begins with: ``httpx.ReadTimeout: timed out``."""
    name = message.partition(":")[0].rpartition(".")[2].strip()
    return _CLASSES.get(name, _MORE_CLASSES.get(name, "agent"))


def _class_of(error: BaseException) -> ErrorClass:
    """What the exception, or one that it was raised from, says; where none does, the agent itself failed."""
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
# where a report may begin, counted from its end: more braces than that are no report
_MOST_BRACES = 500
_LONGEST = 64 * 1024


def result_of(answer: object) -> SubjectResult:
    """What an attempt with this answer, a text or a JSON value, is recorded as."""
    if not isinstance(answer, str):
        report = as_report(answer)
        text = "" if answer is None else json.dumps(answer, ensure_ascii=False)
    else:
        report, text = read_report(answer), answer.strip()
    if report is not None:
        return SubjectResult("report", report, report.answer)
    return SubjectResult("text" if text else "empty", response=text)


def read_report(answer: str) -> Report | None:
    """The report with which the answer ends, None if it ends otherwise."""
    text = answer.rstrip().removesuffix(_FENCE).rstrip()[-_LONGEST:]
    if not text.endswith("}"):
        return None
    decoder, start = json.JSONDecoder(), len(text)
    for _ in range(_MOST_BRACES):
        start = text.rfind("{", 0, start)
        if start < 0:
            return None
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):  # the brace stands in a text, or in prose
            continue
        if end == len(text):
            return as_report(value)
    return None


def as_report(value: object) -> Report | None:
    """The report that this JSON value is; None if it is another one, or not a valid one."""
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
    """One value with its unit, as ``Report`` has them; None if it is none."""
    if not isinstance(entry, Mapping) or not entry.keys() <= {"value", "unit"}:
        return None
    value, unit = entry.get("value"), entry.get("unit")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return {"value": value, "unit": unit} if unit is None or isinstance(unit, str) else None


def value_at(value: Any, path: str) -> Any:
    """What is there: keys of objects and places in lists, from 0, with dots between; all of it for ``""``.

    Raises ``LookupError`` that names the part of the path where nothing is.
    """
    parts = path.split(".") if path else []
    for number, part in enumerate(parts, start=1):
        try:
            value = value[int(part)] if isinstance(value, list) else dict(value)[part]
        except (LookupError, TypeError, ValueError):
            raise LookupError(".".join(parts[:number])) from None
    return value


def last_object(text: str) -> dict[str, Any] | None:
    """The last line that is a JSON object, None if no line is one."""
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
    """The subject did not answer a turn: ``result`` is the attempt's."""

    def __init__(self, result: SubjectResult) -> None:
        super().__init__(result.error)
        self.result = result


# Asks the subject once: what is said, its number from 1, and the seconds that are left. Returns the answer,
# a text or a JSON value. Raises ``AttemptOver``.
Turn = Callable[[str, int, float], object]


def converse(
    prompt: str,
    context: AttemptContext,
    turn: Turn,
    clock: Callable[[], float] = time.monotonic,
    now: Callable[[], float] = time.time,
) -> SubjectResult:
    """Asks turn by turn; the result is that of the last one, with the answers to all.

    The time that a turn takes to be made is the user's, and not part of the attempt's limit.
    """
    limit, begun = context.settings.attempt_time, clock()
    conversation: list[Said] = []
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
            answer = turn(text, number, seconds)
            answered = clock()
            shown = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
            conversation += [{"role": "user", "content": text}, {"role": "assistant", "content": shown}]
            ends.append(now())
            result = result_of(answer)
    except AttemptOver as over:
        result = over.result
    if not context.turns and context.make_turn is None:
        return result
    answers = tuple(said["content"] for said in conversation[1::2])
    return replace(result, answers=answers, turn_ends=tuple(ends))


def _turns(prompt: str, context: AttemptContext, conversation: list[Said]) -> Iterator[str]:
    """What the user says; whenever more is asked for, ``conversation`` holds what was said until then."""
    yield from context.turns or (prompt,)
    while context.make_turn is not None and (text := context.make_turn(conversation)) is not None:
        yield text


def conversation_id(context: AttemptContext) -> str:
    """Names the conversation of one attempt, so that the subject mixes it up with no other."""
    identity = context.identity
    return f"{identity.run}-{identity.episode}-{identity.attempt}"
