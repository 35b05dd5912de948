"""Which call this is: the numbers that the plan and the idempotency key hang on, set once per call.

The model's messages say in which order it asked, so parallel calls get the same numbers every time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage
from pydantic import ValidationError

from agent.errors import SideEffect
from agent.tools import BY_NAME, Tool, ToolRequest
from windtunnel.core.digest import identifier
from windtunnel.core.identity import Identity
from windtunnel.subjects.subject import AttemptContext


@dataclass
class Attempt:
    """One attempt in progress: its context and what has been counted so far. ``clock`` is in seconds."""

    context: AttemptContext
    clock: Callable[[], float] = time.monotonic
    deadline: float = field(init=False)
    model_calls: int = 0
    tool_calls: int = 0
    model_tries: int = 0

    def __post_init__(self) -> None:
        self.deadline = self.clock() + self.context.settings.attempt_time

    @property
    def seconds_left(self) -> float:
        return self.deadline - self.clock()


@dataclass
class Call:
    """One logical tool call. What has a default changes as it is carried out.

    ``maybe_executed``: a try failed in such a way that the service may have carried it out all the same.
    """

    attempt: Attempt
    tool: Tool
    request: ToolRequest
    arguments: dict[str, Any]
    reply: int
    index: int
    ordinal: int
    tries: int = 0
    fallback_used: bool = False
    maybe_executed: bool = False
    fingerprint: str = field(init=False)

    def __post_init__(self) -> None:
        self.fingerprint = self.request.fingerprint

    @property
    def write(self) -> bool:
        return self.tool.is_write(self.request)

    @property
    def side_effect(self) -> SideEffect:
        """Of the call as it failed, all its tries together: the last one alone tells too little."""
        return "unknown" if self.write and self.maybe_executed else "none"

    @property
    def idempotency_key(self) -> str | None:
        """The same for all tries and the fallback of this call; None for reads and when switched off."""
        if not self.write or not self.attempt.context.settings.idempotency:
            return None
        who = self.attempt.context.identity
        return identifier("key", who.run, who.episode, who.attempt, self.reply, self.index)

    def identity(self) -> Identity:
        """Names the try that is being made."""
        who = self.attempt.context.identity
        return Identity(who.run, who.episode, who.attempt, self.ordinal, self.tries)


CURRENT_ATTEMPT: ContextVar[Attempt] = ContextVar("windtunnel_attempt")
CURRENT_CALL: ContextVar[Call] = ContextVar("windtunnel_call")


def identify(attempt: Attempt, tool_call: dict[str, Any], messages: Sequence[AnyMessage]) -> Call | None:
    """The call with its numbers, or None if its tool or its arguments do not exist as asked."""
    request = _request(tool_call)
    if request is None:
        return None
    replies = [message for message in messages if isinstance(message, AIMessage)]
    asked = [(n, i, call) for n, reply in enumerate(replies, 1) for i, call in enumerate(reply.tool_calls)]
    # ids are unique in a reply only: there are models that count from 0 again in the next one
    last = len(replies)
    place = next(k for k, (n, _, call) in enumerate(asked) if n == last and call["id"] == tool_call["id"])
    tool = BY_NAME[tool_call["name"]]
    mine = (tool.link, request.fingerprint)
    before = [_place_on_the_wire(dict(call)) for _, _, call in asked[:place]]
    reply, index, _ = asked[place]
    arguments = dict(tool_call["args"])
    return Call(attempt, tool, request, arguments, reply, index, ordinal=before.count(mine) + 1)


def _request(tool_call: dict[str, Any]) -> ToolRequest | None:
    tool = BY_NAME.get(tool_call["name"])
    try:
        return tool.request_for(tool_call["args"]) if tool else None
    except (ValidationError, TypeError):
        return None


def _place_on_the_wire(tool_call: dict[str, Any]) -> tuple[str, str] | None:
    request = _request(tool_call)
    return (BY_NAME[tool_call["name"]].link, request.fingerprint) if request else None
