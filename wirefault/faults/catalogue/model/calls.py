"""Faults of the model's tool calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta
from typing import Any, Literal

from pydantic import Field

from wirefault.dialects.base import ModelReply, ModelRequest, ToolCall
from wirefault.dialects.json_values import as_list, compact, is_json
from wirefault.faults.base import Try
from wirefault.faults.catalogue.model.content import ContentFault, choose_if_any, with_new_id

ArgumentDamage = Literal["value", "type", "missing", "extra"]
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_WORD = re.compile(r"[^\W\d_]{3,}")


def damaged(
    values: dict[str, Any],
    kind: ArgumentDamage,
    argument: str | None,
    tool: str,
    request: ModelRequest,
    tried: Try,
) -> dict[str, Any] | None:
    """Damage one of the arguments; None if that is impossible for all of them."""
    if kind == "extra":
        added = argument or "options"
        return None if added in values else {**values, added: "default"}
    name = choose_if_any([name for name in values if argument in (None, name)], tried.chance("argument"))
    if name is None:
        return None
    if kind == "missing":
        return {key: value for key, value in values.items() if key != name}
    if kind == "type":
        return {**values, name: _retyped(values[name])}
    offered = request.tool(tool)
    schema = offered.property(name) if offered else {}
    other = choose_if_any(_others(values[name], name, schema, request), tried.chance("value"))
    return None if other is None else {**values, name: other}


def _retyped(value: Any) -> Any:
    return [value] if isinstance(value, str) else compact(value)


def _others(value: Any, name: str, schema: dict[str, Any], request: ModelRequest) -> list[Any]:
    """Other values of the same type, from the best available source."""
    allowed = as_list(schema.get("enum"))
    called = [values.get(name) for call in request.calls if (values := call.values())]
    for source in (allowed,) if allowed else (called, list(_altered(value, request))):
        others = [other for other in source if type(other) is type(value) and other != value]
        if others:
            return others
    return []


def _altered(value: Any, request: ModelRequest) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value * 10, value - 1)
    elif isinstance(value, float):
        yield from (value + 1, value * 10, value / 10)
    elif isinstance(value, list):
        yield value[:-1]
    elif isinstance(value, str):
        yield from _texts(value, request.user)


def _texts(value: str, user: str) -> Iterator[str]:
    """Move a date, take another name from the user's message, or drop a word or letter."""
    day = _DATE.search(value)
    if day:
        yield value.replace(day[0], _moved(day[0]))
    elif names := [word for word in _WORD.findall(user)[1:] if word[0].isupper() and word not in value]:
        yield from names
    elif " " in value:
        yield value.rpartition(" ")[0]
    elif len(value) > 1:
        yield value[:-1]


def _moved(day: str) -> str:
    try:
        return (date.fromisoformat(day) + timedelta(days=1)).isoformat()
    except (ValueError, OverflowError):  # not a calendar date, or the last one
        return day


class _CallFault(ContentFault):
    """Changes one of the reply's tool calls, drawn by chance; replies without tool calls pass."""

    def change(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        at = choose_if_any(range(len(reply.calls)), tried.chance("call"))
        if at is None:
            return None
        call = self.other(reply.calls[at], request, tried)
        return None if call is None else reply.with_call(at, call)

    def other(self, call: ToolCall, request: ModelRequest, tried: Try) -> ToolCall | None:
        """The changed call; None if it cannot be changed."""
        raise NotImplementedError


class MalformedToolCall(_CallFault):
    """Break the JSON of a tool call's arguments.

    One call, drawn by chance, is damaged: cut off, with a trailing comma, with single quotes, or with words
    before the JSON. Anthropic's replies, where arguments are an object, get the damaged text instead of the
    object. Gemini's API never shows such a call: its reply ends with the finish reason
    ``MALFORMED_FUNCTION_CALL``. Ollama's server refuses such a call (``tool_use_failed``): not in this
    dialect. A client may fail, repair the arguments and call the tool with the rest, or end with an empty
    answer and no error.
    """

    name = "malformed_tool_call"

    kind: Literal["cut", "trailing_comma", "single_quotes", "words"] = Field("cut", description="the damage")
    fraction: float = Field(0.6, ge=0, lt=1, description="share of the arguments that is kept (cut)")

    def other(self, call: ToolCall, request: ModelRequest, tried: Try) -> ToolCall | None:
        broken = self._broken(call.arguments)
        unchanged = broken == call.arguments or is_json(broken)
        return None if unchanged else replace(call, arguments=broken)

    def _broken(self, arguments: str) -> str:
        if self.kind == "cut":
            return arguments[: max(1, int(len(arguments) * self.fraction))]
        if self.kind == "trailing_comma":
            return f"{arguments[:-1]},{arguments[-1:]}"
        if self.kind == "single_quotes":
            return arguments.replace('"', "'")
        return f"Here are the arguments: {arguments}"


class UnknownTool(_CallFault):
    """Make the model call an unknown tool.

    The name of one call, drawn by chance, becomes a similar one that the request does not offer. Most agents
    report the unknown tool to the model; some fail.
    """

    name = "unknown_tool"

    tool: str | None = Field(
        None,
        pattern=r"^[a-zA-Z0-9_-]{1,64}$",
        description="the tool's name; default: a variant of the call's",
    )

    def other(self, call: ToolCall, request: ModelRequest, tried: Try) -> ToolCall | None:
        similar = (f"{call.name[:55]}_v2", f"{call.name[:55]}_tool", f"do_{call.name[:55]}", "execute_v2")
        names = (self.tool,) if self.tool else similar
        known = {tool.name for tool in request.tools} | {call.name}
        name = choose_if_any([name for name in names if name not in known], tried.chance("name"))
        return None if name is None else replace(call, name=name)


class WrongArguments(_CallFault):
    """Change a tool call's arguments; they stay valid JSON.

    One argument of one call, both drawn by chance, gets another value of its type (from the conversation or
    the tool's enumeration, if possible) or another type, or is removed; or an unknown argument is added. The
    tool is called with these arguments, unless the agent or the tool validates them.
    """

    name = "wrong_arguments"

    kind: ArgumentDamage = Field("value", description="the defect")
    argument: str | None = Field(None, description="name of the argument; default: drawn")

    def other(self, call: ToolCall, request: ModelRequest, tried: Try) -> ToolCall | None:
        values = call.values()
        if values is None:
            return None
        changed = damaged(values, self.kind, self.argument, call.name, request, tried)
        return None if changed is None else replace(call, arguments=compact(changed))


class RepeatedToolCall(ContentFault):
    """Repeat a tool call within one reply, with different ids.

    A write is executed each time, unless the agent or the tool detects the duplicates.
    """

    name = "repeated_tool_call"

    times: int = Field(2, ge=2, le=20, description="number of identical calls")

    def change(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        at = choose_if_any(range(len(reply.calls)), tried.chance("call"))
        if at is None:
            return None
        for number in range(1, self.times):
            again = with_new_id(reply.calls[at], reply, request, tried, number)
            reply = reply.with_calls(*reply.calls[: at + number], again, *reply.calls[at + number :])
        return reply


class InfiniteLoop(ContentFault):
    """Make the model repeat its last tool call, whatever the result was.

    Its reply becomes the last tool call of the conversation with a new id, so the agent loops until something
    stops it. Replies in a conversation without a tool call pass; a final answer is none.
    """

    name = "infinite_loop"

    answer_tool: str = Field("Report", description="tool by which the agent gives its final answer, if any")

    def change(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        last = next((call for call in reversed(request.calls) if call.name != self.answer_tool), None)
        if last is None:
            return None
        return ModelReply().with_calls(with_new_id(last, reply, request, tried))
