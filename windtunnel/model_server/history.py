"""The conversation so far, as the planner needs it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windtunnel.dialects.conversation import content_text
from windtunnel.model_server.results import NO_ANSWER, Result, parse_result


@dataclass(frozen=True)
class MadeCall:
    """A tool call that the model made, with its answer."""

    name: str
    arguments: Mapping[str, Any]
    result: Result


@dataclass(frozen=True)
class Conversation:
    """``task`` is the last user message, ``turns`` the tool calls of each reply since, ``before`` the calls
    and ``earlier`` the user messages before it."""

    system: str
    task: str
    turns: tuple[tuple[MadeCall, ...], ...]
    before: tuple[MadeCall, ...]
    earlier: tuple[str, ...]


def read_conversation(messages: object) -> Conversation:
    """Sorts a request's messages; what has another shape is left out."""
    listed = [m for m in messages if isinstance(m, Mapping)] if isinstance(messages, Sequence) else []
    system = "\n".join(
        content_text(m.get("content")) for m in listed if m.get("role") in ("system", "developer")
    )
    users = [i for i, m in enumerate(listed) if m.get("role") == "user"]
    last = users[-1] if users else len(listed)
    before = [call for turn in _turns(listed[:last]) for call in turn]
    return Conversation(
        system=system,
        task=content_text(listed[last].get("content")) if users else "",
        turns=tuple(_turns(listed[last:])),
        before=tuple(before),
        earlier=tuple(content_text(listed[i].get("content")) for i in users[:-1]),
    )


def _turns(listed: Sequence[Mapping[str, Any]]) -> list[tuple[MadeCall, ...]]:
    turns = []
    for index, message in enumerate(listed):
        calls = message.get("tool_calls") if message.get("role") == "assistant" else None
        if isinstance(calls, Sequence) and calls:
            answers = _answers(listed[index + 1 :])
            turns.append(tuple(_made(call, answers) for call in calls if isinstance(call, Mapping)))
    return turns


def _answers(following: Sequence[Mapping[str, Any]]) -> dict[str, Result]:
    """The tool messages up to the next reply, by the id of their call."""
    answers: dict[str, Result] = {}
    for message in following:
        if message.get("role") != "tool":
            break
        answers[str(message.get("tool_call_id"))] = parse_result(message.get("content"))
    return answers


def _made(call: Mapping[str, Any], answers: Mapping[str, Result]) -> MadeCall:
    function = call.get("function")
    function = function if isinstance(function, Mapping) else {}
    try:
        arguments = json.loads(function.get("arguments") or "{}")
    except (ValueError, TypeError, RecursionError):
        arguments = {}
    return MadeCall(
        name=str(function.get("name")),
        arguments=arguments if isinstance(arguments, dict) else {},
        result=answers.get(str(call.get("id")), NO_ANSWER),
    )
