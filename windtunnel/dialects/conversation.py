"""The messages in a request to the model, as chat completions and Anthropic's messages API have them. Pure.

Another dialect's come in that form, each of their parts with its ``text`` or, of a result, its ``content``.

A *unit* is what must stay together for the API to accept it: a message, or an assistant's message with
tool calls and all the results that answer them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from windtunnel.dialects import Dialect
from windtunnel.dialects.gemini_contents import GEMINI_NAME, from_messages, to_messages
from windtunnel.dialects.http import Request
from windtunnel.dialects.json_values import as_object, as_objects

ChatMessage = dict[str, Any]


@dataclass
class Conversation:
    """``messages`` is a copy, to be changed at will; ``body`` is the rest of the request."""

    dialect: Dialect
    body: dict[str, Any]
    messages: list[ChatMessage]

    def units(self) -> list[list[ChatMessage]]:
        """All messages, those that belong together in one list."""
        units: list[list[ChatMessage]] = []
        for message in self.messages:
            if units and _answers_tools(message) and _calls_or_answers(units[-1][-1]):
                units[-1].append(message)
            else:
                units.append([message])
        return units

    def split(self) -> tuple[list[list[ChatMessage]], list[list[ChatMessage]]]:
        """The leading system messages, and the units after them."""
        units = self.units()
        count = next((at for at, unit in enumerate(units) if not _is_system(unit[0])), len(units))
        return units[:count], units[count:]

    def set_units(self, *parts: list[list[ChatMessage]]) -> None:
        """Makes these units, in this order, the conversation's messages."""
        self.messages = [message for units in parts for unit in units for message in unit]

    def as_body(self) -> dict[str, Any]:
        """The request's JSON with these messages."""
        if self.dialect == GEMINI_NAME:
            return from_messages(self.body, self.messages)
        return self.body | {"messages": self.messages}

    def indexed(self, *roles: str) -> Iterator[tuple[int, ChatMessage]]:
        """The messages of these roles that hold text, with their indexes; ``tool`` is a tool's result."""
        for at, message in enumerate(self.messages):
            if role_of(message) in roles and text_of(message):
                yield at, message


def read_conversation(request: Request, dialect: Dialect) -> Conversation:
    """The conversation in a request to the model. Raises ``ValueError`` for what is none."""
    body = request.json()
    if dialect == GEMINI_NAME:
        return Conversation(dialect, as_object(body), copy.deepcopy(to_messages(as_object(body))))
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list) or len(as_objects(messages)) < len(messages):
        raise ValueError("no list of messages")
    rest = {key: value for key, value in body.items() if key != "messages"}
    return Conversation(dialect, rest, copy.deepcopy(messages))


def _is_system(message: ChatMessage) -> bool:
    return message.get("role") in ("system", "developer")


def role_of(message: ChatMessage) -> str:
    """``tool`` for a tool's result, in Anthropic's form too, where a user brings it."""
    return "tool" if _answers_tools(message) else str(message.get("role"))


def text_of(message: ChatMessage) -> str:
    """The text of a message or of the tool's result in it; parts joined by line ends."""
    return content_text(message.get("content"))


def set_text(message: ChatMessage, text: str) -> None:
    """Puts the text in the place of what text there was; what else the message holds stays."""
    message["content"] = _with_text(message.get("content"), text)


def with_new_ids(message: ChatMessage, suffix: str) -> ChatMessage:
    """A copy whose tool calls have ids of their own."""
    twin = copy.deepcopy(message)
    for holder in (twin, *_calls(twin), *_parts(twin)):
        for key in ("id", "tool_call_id", "tool_use_id"):
            if isinstance(holder.get(key), str):
                holder[key] += suffix
    return twin


def last_user_text(messages: list[ChatMessage]) -> str:
    """The text of the user's last message; empty without one."""
    texts = [text_of(message) for message in messages if role_of(message) == "user"]
    return texts[-1] if texts else ""


def content_text(content: Any) -> str:
    """The text of a message's content: a string, or the text parts of a list, joined by line ends."""
    return "\n".join(_texts(content))


def _calls(message: ChatMessage) -> list[ChatMessage]:
    """The tool calls in chat completions' form."""
    return as_objects(message.get("tool_calls"))


def _parts(message: ChatMessage) -> list[ChatMessage]:
    return as_objects(message.get("content"))


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            if isinstance(part, dict):
                yield from _texts(part.get("text", part.get("content")))


def _with_text(content: Any, text: str) -> Any:
    """The first text becomes ``text``, further text parts go."""
    if not isinstance(content, list):
        return text
    parts: list[Any] = []
    rest: str | None = text
    for part in content:
        key = next((k for k in ("text", "content") if isinstance(part, dict) and part.get(k)), None)
        if key is None:
            parts.append(part)
        elif rest is not None:
            parts.append(part | {key: _with_text(part[key], rest)})
            rest = None
    return parts


def _answers_tools(message: ChatMessage) -> bool:
    results = any(part.get("type") == "tool_result" for part in _parts(message))
    return message.get("role") == "tool" or results


def _calls_or_answers(message: ChatMessage) -> bool:
    calls = any(part.get("type") == "tool_use" for part in _parts(message))
    return calls or bool(_calls(message)) or _answers_tools(message)
