"""Faults of the tool calls that a model asks for."""

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
    """The arguments with one of them wrong; None if none can be made wrong in that way."""
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
    """Other values of the same type, from the best source that has any."""
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
    """A date moves, a name becomes another one of the user's message, other text loses a word or a letter."""
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
    except (ValueError, OverflowError):  # no date of the calendar, or its last one
        return day


class _CallFault(ContentFault):
    """Changes one of the reply's tool calls, drawn by chance; a reply without one stays as it is."""

    def change(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        at = choose_if_any(range(len(reply.calls)), tried.chance("call"))
        if at is None:
            return None
        call = self.other(reply.calls[at], request, tried)
        return None if call is None else reply.with_call(at, call)

    def other(self, call: ToolCall, request: ModelRequest, tried: Try) -> ToolCall | None:
        """The call that stands in this one's place; None if it cannot be changed."""
        raise NotImplementedError


class MalformedToolCall(_CallFault):
    """The arguments of a tool call are no JSON.

    One call of the reply, drawn by chance, is damaged: cut off, with a trailing comma, with single quotes,
    or with words before the JSON. In Anthropic's JSON form, where arguments are an object, the damaged
    text stands in its place; in its event streams the pieces amount to it. Gemini's API never shows such a
    call: its reply ends there, with the finish reason ``MALFORMED_FUNCTION_CALL``. A client may fail, repair
    the arguments and call the tool with what is left of them, or end with an empty answer and no error.
    """

    name = "malformed_tool_call"

    kind: Literal["cut", "trailing_comma", "single_quotes", "words"] = Field("cut", description="the damage")
    fraction: float = Field(0.6, ge=0, lt=1, description="for cut: share of the arguments that is left")

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
    """The model calls a tool that it was not offered.

    The name of one call, drawn by chance, becomes one that is near to it and that the request does not
    offer. Most agents tell the model that there is no such tool; some fail.
    """

    name = "unknown_tool"

    tool: str | None = Field(
        None, pattern=r"^[a-zA-Z0-9_-]{1,64}$", description="the name; without it, a variant of the call's"
    )

    def other(self, call: ToolCall, request: ModelRequest, tried: Try) -> ToolCall | None:
        similar = (f"{call.name[:55]}_v2", f"{call.name[:55]}_tool", f"do_{call.name[:55]}", "execute_v2")
        names = (self.tool,) if self.tool else similar
        known = {tool.name for tool in request.tools} | {call.name}
        name = choose_if_any([name for name in names if name not in known], tried.chance("name"))
        return None if name is None else replace(call, name=name)


class WrongArguments(_CallFault):
    """A tool call's arguments are JSON, but not the right ones.

    One argument of one call, both drawn by chance, gets another value of its type (made from the
    conversation and from the tool's enumeration where they offer one), another type, or is left out; or an
    argument is added that the tool does not know. The tool is called with these arguments, unless the
    agent or the tool validates them.
    """

    name = "wrong_arguments"

    kind: ArgumentDamage = Field("value", description="what is wrong with the argument")
    argument: str | None = Field(None, description="its name; without it, drawn by chance")

    def other(self, call: ToolCall, request: ModelRequest, tried: Try) -> ToolCall | None:
        values = call.values()
        if values is None:
            return None
        changed = damaged(values, self.kind, self.argument, call.name, request, tried)
        return None if changed is None else replace(call, arguments=compact(changed))


class RepeatedToolCall(ContentFault):
    """The model makes the same tool call several times in one reply, each with an id of its own.

    A write is carried out as often, unless the agent or the tool takes the calls for one.
    """

    name = "repeated_tool_call"

    times: int = Field(2, ge=2, le=20, description="how often the call is there")

    def change(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        at = choose_if_any(range(len(reply.calls)), tried.chance("call"))
        if at is None:
            return None
        for number in range(1, self.times):
            again = with_new_id(reply.calls[at], reply, request, tried, number)
            reply = reply.with_calls(*reply.calls[: at + number], again, *reply.calls[at + number :])
        return reply


class InfiniteLoop(ContentFault):
    """The model makes its last tool call again, whatever the tool has answered.

    Its reply becomes the last tool call of the conversation, with a new id, so that the agent goes round
    until something stops it. A reply to a conversation without a tool call stays as it is.
    """

    name = "infinite_loop"

    def change(self, reply: ModelReply, request: ModelRequest, tried: Try) -> ModelReply | None:
        if not request.calls:
            return None
        return ModelReply().with_calls(with_new_id(request.calls[-1], reply, request, tried))
