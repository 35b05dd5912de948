"""What a model was asked and what it replied, in one form for all of their APIs. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from wirefault.dialects.json_values import as_object, as_text, parsed

_PIECE = 16


@dataclass(frozen=True)
class ToolCall:
    """A tool call that the model asks for. ``arguments`` is JSON text, as the model wrote it."""

    name: str
    arguments: str
    id: str = ""

    def values(self) -> dict[str, Any] | None:
        """The arguments; None if they are no JSON object."""
        try:
            value = parsed(self.arguments)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None


@dataclass(frozen=True)
class ModelReply:
    """A model's reply. ``finish`` in the words of chat completions: stop, tool_calls, content_filter."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: str = "stop"

    def with_calls(self, *calls: ToolCall) -> ModelReply:
        """The same text with these calls in place of its own."""
        return replace(self, calls=calls, finish="tool_calls")

    def with_call(self, at: int, call: ToolCall) -> ModelReply:
        """The same reply with another call at that place."""
        return replace(self, calls=(*self.calls[:at], call, *self.calls[at + 1 :]))

    def as_json(self) -> dict[str, Any]:
        """The reply as it stands in a fault's evidence."""
        calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in self.calls]
        return {"text": self.text, "tool_calls": calls, "finish": self.finish}


@dataclass(frozen=True)
class OfferedTool:
    """A tool that the request offers; ``schema`` is the JSON schema of its arguments."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, value: Mapping[str, Any], *, schema: str) -> OfferedTool:
        """From an API's description of it, which has the JSON schema under the key ``schema``."""
        name, description = as_text(value.get("name")), as_text(value.get("description"))
        return cls(name, description, as_object(value.get(schema)))

    def property(self, name: str) -> dict[str, Any]:
        """The JSON schema of one argument; empty for an unknown one."""
        return as_object(as_object(self.schema.get("properties")).get(name))


@dataclass(frozen=True)
class ModelRequest:
    """A conversation: the text of its last user message, all tool calls that the model made, the tools
    that it is offered. ``model``: its name, where the request has it in its path."""

    user: str = ""
    calls: tuple[ToolCall, ...] = ()
    tools: tuple[OfferedTool, ...] = ()
    model: str = ""

    def tool(self, name: str) -> OfferedTool | None:
        """The offered tool of that name."""
        return next((tool for tool in self.tools if tool.name == name), None)


def pieces(text: str) -> Iterator[str]:
    """The text as the events of a stream bring it, 12 characters each."""
    return (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))
