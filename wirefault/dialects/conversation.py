"""Reads and writes the messages in model requests of chat completions, Anthropic's messages API, OpenAI's
Responses API, Gemini, Ollama and Bedrock. Pure.

A message is recognized by its shape. In the Responses API it is an item of the ``input``, and tool calls,
their results and the model's reasoning are items too. Gemini's and Bedrock's come in Anthropic's form.
A *unit* must stay together for the API to accept it: a message, or an assistant's message with tool calls and
all the results that answer them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from wirefault.dialects import Dialect, bedrock_messages
from wirefault.dialects.gemini_contents import CONTENTS, from_messages, to_messages
from wirefault.dialects.http import Request
from wirefault.dialects.json_values import as_object, as_objects

ChatMessage = dict[str, Any]
_KEYS = ("messages", "input", CONTENTS)
_BEDROCK = "bedrock"
_CALL_ITEM, _RESULT_ITEM = "function_call", "function_call_output"


@dataclass
class Conversation:
    """The messages of one model request."""

    dialect: Dialect
    body: dict[str, Any]
    """The rest of the request."""
    messages: list[ChatMessage]
    """A copy that may be changed. System text comes first, also if the API has it in a field."""
    key: str = "messages"
    """Field of the request that has the messages."""
    system_field: str = ""
    """Field that has the system text; empty if it is a message."""

    def as_body(self) -> dict[str, Any]:
        """The request's JSON with these messages."""
        if self.key == CONTENTS:
            return from_messages(self.body, self.messages)
        if self.dialect == _BEDROCK:
            return bedrock_messages.from_messages(self.body, self.messages)
        among = self.messages if self.dialect == "anthropic" else self.messages[:1]
        apart = [message for message in among if self.system_field and _is_system(message)]
        system = {self.system_field: _joined([message.get("content") for message in apart])} if apart else {}
        rest = [message for message in self.messages if not any(message is other for other in apart)]
        return {**self.body, **system, self.key: rest}

    def units(self) -> list[list[ChatMessage]]:
        """All messages, grouped into units."""
        units: list[list[ChatMessage]] = []
        for message in self.messages:
            if units and _continues(units[-1][-1], message):
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
        """Make these units, in this order, the conversation's messages."""
        self.messages = [message for units in parts for unit in units for message in unit]

    def indexed(self, *roles: str) -> Iterator[tuple[int, ChatMessage]]:
        """The messages of these roles that hold text, with indexes; ``tool`` is the role of tool results."""
        for at, message in enumerate(self.messages):
            if role_of(message) in roles and text_of(message):
                yield at, message


def read_conversation(request: Request, dialect: Dialect) -> Conversation:
    """The conversation in a model request. Raises ``ValueError`` if it has none."""
    body = request.json()
    key = next((key for key in _KEYS if key in as_object(body)), None)
    if key is None:
        raise ValueError("no messages")
    if key == CONTENTS:
        return Conversation(dialect, body, to_messages(body), key)
    if dialect == _BEDROCK:
        return Conversation(dialect, body, bedrock_messages.to_messages(body), key)
    messages = body.pop(key)
    if key == "input" and isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    if not isinstance(messages, list) or len(as_objects(messages)) < len(messages):
        raise ValueError("no list of messages")
    field = "system" if dialect == "anthropic" else "instructions" if body.get("instructions") else ""
    has_system = bool(body.get(field)) and isinstance(body[field], str | list)
    first = [{"role": "system", "content": body.pop(field)}] if has_system else []
    return Conversation(dialect, body, first + messages, key, field)


def _is_system(message: ChatMessage) -> bool:
    return message.get("role") in ("system", "developer")


def role_of(message: ChatMessage) -> str:
    """The message's role; ``tool`` for a tool result, also inside a user message of Anthropic's API.

    Anything else without a role, such as a tool call of the Responses API, is the ``assistant``'s.
    """
    return "tool" if _answers_tools(message) else str(message.get("role", "assistant"))


def text_of(message: ChatMessage) -> str:
    """The text of a message or of the tool's result in it; parts joined by line ends."""
    return content_text(message.get(_text_key(message)))


def set_text(message: ChatMessage, text: str) -> None:
    """Replace the message's text; anything else in it stays."""
    key = _text_key(message)
    message[key] = _with_text(message.get(key), text)


def with_new_ids(message: ChatMessage, suffix: str) -> ChatMessage:
    """A copy with the suffix added to every id of a tool call."""
    twin = copy.deepcopy(message)
    for holder in (twin, *_calls(twin), *_parts(twin)):
        for key in ("id", "tool_call_id", "tool_use_id", "call_id"):
            if isinstance(holder.get(key), str):
                holder[key] += suffix
    return twin


def last_user_text(messages: list[ChatMessage]) -> str:
    """The text of the user's last message; empty without one."""
    texts = [text_of(message) for message in messages if role_of(message) == "user"]
    return texts[-1] if texts else ""


def _joined(contents: list[Any]) -> Any:
    """Several contents as one: a text, or a list of parts if one of them is such a list."""
    if not any(isinstance(content, list) for content in contents):
        return "\n".join(map(str, contents))
    parts = (
        content if isinstance(content, list) else [{"type": "text", "text": content}] for content in contents
    )
    return [part for each in parts for part in each]


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
    """The first text becomes ``text``, further text parts are removed."""
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


def _text_key(message: ChatMessage) -> str:
    return "output" if message.get("type") == _RESULT_ITEM else "content"


def _answers_tools(message: ChatMessage) -> bool:
    results = any(part.get("type") == "tool_result" for part in _parts(message))
    return message.get("role") == "tool" or message.get("type") == _RESULT_ITEM or results


def _continues(before: ChatMessage, message: ChatMessage) -> bool:
    """Whether the message must stay with the one before it."""
    if before.get("type") == "reasoning":
        return True
    if message.get("type") == _CALL_ITEM:  # calls that the model made together are separate items
        return before.get("type") == _CALL_ITEM
    return _answers_tools(message) and _calls_or_answers(before)


def _calls_or_answers(message: ChatMessage) -> bool:
    calls = any(part.get("type") == "tool_use" for part in _parts(message))
    return calls or bool(_calls(message)) or message.get("type") == _CALL_ITEM or _answers_tools(message)
