"""What a model said and what it was asked, whatever the API: the form on which content faults work. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from windtunnel.dialects.json_values import obj, parsed

PIECE = 16  # characters in each event of a stream that is written anew


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
        """With another call at that place."""
        return replace(self, calls=(*self.calls[:at], call, *self.calls[at + 1 :]))

    def shown(self) -> dict[str, Any]:
        """As evidence."""
        calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in self.calls]
        return {"text": self.text, "tool_calls": calls, "finish": self.finish}


@dataclass(frozen=True)
class Tool:
    """A tool that the request offers; ``schema`` is the JSON schema of its arguments."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)

    def property(self, name: str) -> dict[str, Any]:
        return obj(obj(self.schema.get("properties")).get(name))


@dataclass(frozen=True)
class ModelRequest:
    """The conversation so far: the user's last words, all calls that the model asked for, what it may use."""

    user: str = ""
    calls: tuple[ToolCall, ...] = ()
    tools: tuple[Tool, ...] = ()

    def tool(self, name: str) -> Tool | None:
        return next((tool for tool in self.tools if tool.name == name), None)
