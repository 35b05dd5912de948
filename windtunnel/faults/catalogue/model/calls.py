"""Faults of the tool calls that a model asks for."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field

from windtunnel.dialects.json_values import compact, is_json
from windtunnel.dialects.model_messages import ModelReply, ModelRequest, ToolCall
from windtunnel.faults.base import Try
from windtunnel.faults.catalogue.model.arguments import Kind, damaged
from windtunnel.faults.catalogue.model.content import ContentFault, pick, twin


class _CallFault(ContentFault):
    """Changes one of the reply's tool calls, drawn by chance; a reply without one is left alone."""

    def change(self, said: ModelReply, talk: ModelRequest, this: Try) -> ModelReply | None:
        at = pick(range(len(said.calls)), this.chance("call"))
        if at is None:
            return None
        call = self.other(said.calls[at], talk, this)
        return None if call is None else said.with_call(at, call)

    def other(self, call: ToolCall, talk: ModelRequest, this: Try) -> ToolCall | None:
        raise NotImplementedError


class MalformedToolCall(_CallFault):
    """The arguments of a tool call are no JSON.

    One call of the reply, drawn by chance, is damaged: cut off, with a trailing comma, with single quotes,
    or with words before the JSON. In Anthropic's JSON form, where arguments are an object, the damaged
    text stands in its place; in its event streams the pieces amount to it. A client may fail, repair the
    arguments and call the tool with what is left of them, or end with an empty answer and no error.
    """

    name = "malformed_tool_call"

    kind: Literal["cut", "trailing_comma", "single_quotes", "words"] = Field("cut", description="the damage")
    fraction: float = Field(0.6, ge=0, lt=1, description="for cut: share of the arguments that is left")

    def other(self, call: ToolCall, talk: ModelRequest, this: Try) -> ToolCall | None:
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
    """The model asks for a tool that it was not offered.

    The name of one call, drawn by chance, becomes one that is near to it and that the request does not
    offer. Most agents tell the model that there is no such tool; some fail.
    """

    name = "unknown_tool"

    tool: str | None = Field(
        None, pattern=r"^[a-zA-Z0-9_-]{1,64}$", description="the name; without it, one made from the call's"
    )

    def other(self, call: ToolCall, talk: ModelRequest, this: Try) -> ToolCall | None:
        made = (f"{call.name[:55]}_v2", f"{call.name[:55]}_tool", f"do_{call.name[:55]}", "execute_v2")
        names = (self.tool,) if self.tool else made
        known = {tool.name for tool in talk.tools} | {call.name}
        name = pick([one for one in names if one not in known], this.chance("name"))
        return None if name is None else replace(call, name=name)


class WrongArguments(_CallFault):
    """A tool call's arguments are JSON, but not the right ones.

    One argument of one call, both drawn by chance, gets another value of its type (made from the
    conversation and from the tool's enumeration where they offer one), another type, or is left out; or an
    argument is added that the tool does not know. The tool is called with
    them, unless the agent or the tool validates them.
    """

    name = "wrong_arguments"

    kind: Kind = Field("value", description="what is wrong with the argument")
    argument: str | None = Field(None, description="its name; without it, one drawn by chance")

    def other(self, call: ToolCall, talk: ModelRequest, this: Try) -> ToolCall | None:
        values = call.values()
        changed = None if values is None else damaged(values, self.kind, self.argument, call.name, talk, this)
        return None if changed is None else replace(call, arguments=compact(changed))


class RepeatedToolCall(ContentFault):
    """The model asks for the same tool call several times in one reply, each with an id of its own.

    A write is carried out as often, unless the agent or the tool takes the calls for one.
    """

    name = "repeated_tool_call"

    times: int = Field(2, ge=2, le=20, description="how often the call is there")

    def change(self, said: ModelReply, talk: ModelRequest, this: Try) -> ModelReply | None:
        at = pick(range(len(said.calls)), this.chance("call"))
        if at is None:
            return None
        for number in range(1, self.times):
            again = twin(said.calls[at], said, talk, this, number)
            said = said.with_calls(*said.calls[: at + number], again, *said.calls[at + number :])
        return said


class InfiniteLoop(ContentFault):
    """The model asks again for what it has asked for already, whatever it has been told.

    Its reply becomes the last tool call of the conversation, with a new id. A reply to a conversation
    without one is left alone; from then on the agent goes round until something stops it.
    """

    name = "infinite_loop"

    def change(self, said: ModelReply, talk: ModelRequest, this: Try) -> ModelReply | None:
        if not talk.calls:
            return None
        return ModelReply().with_calls(twin(talk.calls[-1], said, talk, this))
