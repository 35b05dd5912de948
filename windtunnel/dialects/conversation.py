"""The conversation in a request to the model, in chat completions or Anthropic's messages form. Pure.

A *unit* is what must stay together for the API to accept it: a message, or an assistant's message that
asks for tools with all the results that answer it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from windtunnel.dialects import Dialect
from windtunnel.dialects.http import Request

SHOWN = 4096
Message = dict[str, Any]


@dataclass
class Conversation:
    """``messages`` is a copy, to be changed at will; ``body`` is the rest of the request."""

    dialect: Dialect
    body: dict[str, Any]
    messages: list[Message]

    def units(self) -> list[list[Message]]:
        """All messages, those that belong together in one list."""
        found: list[list[Message]] = []
        for message in self.messages:
            if found and _answers_tools(message) and _asks_or_answers(found[-1][-1]):
                found[-1].append(message)
            else:
                found.append([message])
        return found

    def split(self) -> tuple[list[list[Message]], list[list[Message]]]:
        """The leading system messages, and the units after them."""
        units = self.units()
        count = next((at for at, unit in enumerate(units) if not is_system(unit[0])), len(units))
        return units[:count], units[count:]

    def with_units(self, *parts: list[list[Message]]) -> None:
        self.messages = [message for units in parts for unit in units for message in unit]

    def indexed(self, *roles: str) -> Iterator[tuple[int, Message]]:
        """Messages with text of these roles (``tool`` is a tool's result), with their places."""
        for at, message in enumerate(self.messages):
            if role_of(message) in roles and text_of(message):
                yield at, message


def read_conversation(request: Request, dialect: Dialect) -> Conversation:
    """The conversation in a request to the model. Raises ``ValueError`` for what is none."""
    body = request.json()
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list) or not all(isinstance(one, dict) for one in messages):
        raise ValueError("no list of messages")
    rest = {key: value for key, value in body.items() if key != "messages"}
    return Conversation(dialect, rest, copy.deepcopy(messages))


def is_system(message: Message) -> bool:
    return message.get("role") in ("system", "developer")


def role_of(message: Message) -> str:
    """``tool`` for a tool's result, in Anthropic's form too, where a user brings it."""
    return "tool" if _answers_tools(message) else str(message.get("role"))


def text_of(message: Message) -> str:
    """The text of a message or of the tool's result in it; parts joined by line ends."""
    return "\n".join(_texts(message.get("content")))


def set_text(message: Message, text: str) -> None:
    """Puts the text in the place of what text there was; what else the message holds stays."""
    message["content"] = _with_text(message.get("content"), text)


def tool_ids(message: Message) -> list[str]:
    """The ids of the tool calls that a message asks for or answers."""
    asked = [call.get("id") for call in _asked(message)]
    parts = [part for part in _parts(message) if part.get("type") in ("tool_use", "tool_result")]
    ids = [*asked, message.get("tool_call_id"), *(part.get("id", part.get("tool_use_id")) for part in parts)]
    return [one for one in ids if isinstance(one, str)]


def renamed(message: Message, suffix: str) -> Message:
    """A copy whose tool calls have ids of their own."""
    twin = copy.deepcopy(message)
    for holder in (twin, *_asked(twin), *_parts(twin)):
        for key in ("id", "tool_call_id", "tool_use_id"):
            if isinstance(holder.get(key), str):
                holder[key] += suffix
    return twin


def shown(text: str) -> str:
    """As much of it as the ledger keeps."""
    return text[:SHOWN]


def _asked(message: Message) -> list[Message]:
    """The tool calls in chat completions' form."""
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _parts(message: Message) -> list[Message]:
    content = message.get("content")
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    elif isinstance(content, list):
        for part in content:
            if isinstance(part, dict):
                yield from _texts(part.get("text", part.get("content")))


def _with_text(content: Any, text: str) -> Any:
    """The first text becomes ``text``, further ones become empty of words."""
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


def _answers_tools(message: Message) -> bool:
    results = any(part.get("type") == "tool_result" for part in _parts(message))
    return message.get("role") == "tool" or results


def _asks_or_answers(message: Message) -> bool:
    asks = any(part.get("type") == "tool_use" for part in _parts(message))
    return asks or bool(_asked(message)) or _answers_tools(message)
