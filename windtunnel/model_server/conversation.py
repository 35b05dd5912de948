"""The conversation so far, as the replay needs it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windtunnel.dialects.conversation import content_text

NO_REPLY = object()


@dataclass(frozen=True)
class MadeCall:
    """A tool call that the model made; ``content`` is its tool message's, ``NO_REPLY`` without one."""

    name: str
    arguments: Mapping[str, Any]
    content: object


@dataclass(frozen=True)
class TaskSoFar:
    """``task`` is the last user message, ``turns`` the tool calls of each reply since."""

    system: str
    task: str
    turns: tuple[tuple[MadeCall, ...], ...]


def read_messages(messages: Sequence[Any]) -> TaskSoFar:
    """Sorts a request's messages, which have been checked."""
    users = [at for at, message in enumerate(messages) if message.get("role") == "user"]
    system = "\n".join(
        content_text(m.get("content")) for m in messages if m.get("role") in ("system", "developer")
    )
    since = messages[users[-1] :] if users else messages
    turns = [
        tuple(_made(call, since[index + 1 :]) for call in message["tool_calls"])
        for index, message in enumerate(since)
        if message.get("role") == "assistant" and message.get("tool_calls")
    ]
    return TaskSoFar(system, content_text(since[0].get("content")) if users else "", tuple(turns))


def _made(call: Mapping[str, Any], following: Sequence[Mapping[str, Any]]) -> MadeCall:
    """The call with its result: the tool message with its id, before the model's next reply."""
    content: object = NO_REPLY
    for message in following:
        if message.get("role") != "tool":
            break
        if message.get("tool_call_id") == call.get("id"):
            content = message.get("content")
    function = call.get("function") or {}
    try:
        arguments = json.loads(function.get("arguments") or "{}")
    except (ValueError, TypeError, RecursionError):  # a fault may have broken them
        arguments = {}
    return MadeCall(str(function.get("name")), arguments if isinstance(arguments, dict) else {}, content)
