"""An answer that is a tool call, written as text instead of made. Pure.

Small models do that: the framework finds no call in the reply and takes its text for the answer. Only an
answer that has nothing but calls of offered tools counts. One that quotes JSON on purpose is an answer: the
prompt speaks of JSON or of the tool, the call was made before, or the text around it says more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from wirefault.dialects.base import ModelRequest
from wirefault.dialects.http import Request as HttpRequest
from wirefault.dialects.registry import MODEL_DIALECTS
from wirefault.history.events import EpisodeStarted, Exchange, ToolCalled
from wirefault.judging.trace import EpisodeTrace

_MARKS = re.compile(
    r"```[\w-]*|</?(?:tool_call|tool_calls|function_call|functioncall|tools)>|<\|[\w ]+\|>|\[/?TOOL_CALLS?\]"
)
_TAGGED = re.compile(r"<function=([\w.-]+)>(.*?)</function>", re.S)  # Llama's form
_IN_CODE = re.compile(r"(?:functions\.)?([A-Za-z_][\w.-]*)\((.*)\)", re.S)
_NAMES = ("name", "tool", "tool_name", "function", "action", "recipient_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "tool_input", "action_input")
_LISTS = ("tool_calls", "function_call", "tool_call", "calls", "tool_uses")
_SPEAKS_OF_JSON = re.compile(r"\bjson\b", re.I)


@dataclass(frozen=True)
class TextCall:
    """A tool call that stands in a text."""

    tool: str
    arguments: Any
    """As they are read; None if they are not JSON."""


def text_calls(trace: EpisodeTrace, answer: str) -> Sequence[str]:
    """The tools whose calls the answer consists of; empty for any other answer."""
    if "{" not in answer and "(" not in answer:
        return ()
    calls = calls_in(answer, _offered(trace))
    prompt = " ".join(start.prompt for start in trace.all(EpisodeStarted))
    if _SPEAKS_OF_JSON.search(prompt) or any(_is_identifier(c.tool) and c.tool in prompt for c in calls):
        return ()
    made = list(_made(trace))
    if any((call.tool, call.arguments) in made for call in calls):
        return ()
    return [call.tool for call in calls]


def _is_identifier(name: str) -> bool:
    """Whether it is more than a plain word: `get_weather` and `getWeather`, but not `search`."""
    return not name.isalpha() or name[1:] != name[1:].lower()


def calls_in(text: str, tools: Collection[str]) -> list[TextCall]:
    """The calls of these tools that the text consists of; none if it says anything else."""
    tagged = list(_TAGGED.finditer(text))
    if tagged:
        calls = [TextCall(match[1], _arguments(match[2])) for match in tagged]
        rest = _MARKS.sub("", _TAGGED.sub("", text)).strip()
        return calls if not rest and all(call.tool in tools for call in calls) else []
    plain = _MARKS.sub("\n", text).strip()
    in_code = _IN_CODE.fullmatch(plain)
    if in_code:
        return [TextCall(in_code[1], None)] if in_code[1] in tools else []
    values = _values(plain)
    read = [call for value in values for call in _calls_of(value, tools)]
    return [call for call in read if call is not None] if read and None not in read else []


def _values(text: str) -> list[Any]:
    """The JSON values that the text consists of; empty if it has anything else."""
    decoder, values, at = json.JSONDecoder(), [], 0
    while at < len(text):
        if text[at].isspace() or text[at] in ",;":
            at += 1
            continue
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        values.append(value)
    return values


def _calls_of(value: Any, tools: Collection[str]) -> Iterator[TextCall | None]:
    """The calls in a value; None for a part that is not a call."""
    if isinstance(value, list):
        for member in value:
            yield from _calls_of(member, tools)
        return
    if not isinstance(value, dict):
        yield None
        return
    inner = next((value[key] for key in _LISTS if isinstance(value.get(key), list | dict)), None)
    if inner is None and isinstance(value.get("function"), dict):
        inner = value["function"]
    if inner is not None:
        yield from _calls_of(inner, tools)
        return
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), "")
    arguments = next((value[key] for key in _ARGUMENTS if key in value), None)
    name = name.removeprefix("functions.")
    is_call = name in tools and isinstance(arguments, dict | str)
    yield TextCall(name, _arguments(arguments)) if is_call else None


def _arguments(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _offered(trace: EpisodeTrace) -> set[str]:
    """The tools that the model could call, as far as the history has them."""
    names = set(trace.links.declared_tools)
    names |= {exchange.tool for exchange in trace.exchanges if exchange.tool}
    for request in _model_requests(trace.exchanges):
        names |= {tool.name for tool in request.tools}
    return names


def _made(trace: EpisodeTrace) -> Iterator[tuple[str, Any]]:
    """Name and arguments of the calls that were really made."""
    for called in trace.all(ToolCalled):
        yield called.tool, dict(called.arguments)
    for request in _model_requests(trace.exchanges):
        for call in request.calls:
            yield call.name, call.values()


def _model_requests(exchanges: Iterable[Exchange]) -> Iterator[ModelRequest]:
    """The conversations in the stored requests to models."""
    for exchange in exchanges:
        dialect = MODEL_DIALECTS.get(exchange.dialect)
        if dialect is not None and exchange.request_body and not exchange.request_cut:
            body = exchange.request_body.encode()
            yield dialect.read_request(HttpRequest((), body, exchange.method, exchange.target))
