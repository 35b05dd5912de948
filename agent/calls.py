"""The identity of a tool call: the numbers that its faults and its idempotency key derive from.

They are set once per call, from the order of calls in the model's messages, so that parallel calls get the
same numbers in every run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage
from pydantic import ValidationError

from agent.bounded import Connections
from agent.errors import SideEffect
from agent.tools import BY_NAME, AgentTool, ToolRequest
from wirefault.core.digest import identifier
from wirefault.core.identity import Identity
from wirefault.subjects.subject import AttemptContext


@dataclass
class AttemptInProgress:
    """One attempt in progress: its context and what has been counted so far. ``clock`` is in seconds.

    Whoever began it closes ``to_close``: what may stay open in the attempt, but not after it.
    ``connections`` are those that tool calls share, None where each try opens its own.
    """

    context: AttemptContext
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    to_close: ExitStack = field(default_factory=ExitStack)
    connections: Connections | None = field(init=False, default=None)
    deadline: float = field(init=False)
    model_calls: int = 0
    tool_calls: int = 0
    model_tries: int = 0

    def __post_init__(self) -> None:
        settings = self.context.settings
        self.deadline = self.clock() + settings.attempt_time
        if settings.keep_alive:
            self.connections = Connections()
            self.to_close.callback(self.connections.close)

    @property
    def seconds_left(self) -> float:
        return self.deadline - self.clock()


@dataclass
class Call:
    """One logical tool call; the fields that have a default change as it is carried out.

    ``reply`` and ``index`` say which call of which of the model's replies it is, ``ordinal`` how often the
    model has made the same request. ``maybe_executed``: the service may have carried out a try that failed.
    """

    attempt: AttemptInProgress
    tool: AgentTool
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
        """Of a call that failed: what all its tries together may have done, not the last alone."""
        return "unknown" if self.write and self.maybe_executed else "none"

    @property
    def idempotency_key(self) -> str | None:
        """The same for all tries and the fallback of this call; None for reads and when switched off."""
        if not self.write or not self.attempt.context.settings.idempotency:
            return None
        identity = self.attempt.context.identity
        return identifier("key", identity.run, identity.episode, identity.attempt, self.reply, self.index)

    def identity(self) -> Identity:
        """The identity of the try that is being made."""
        return replace(self.attempt.context.identity, call=self.ordinal, try_=self.tries)


CURRENT_ATTEMPT: ContextVar[AttemptInProgress] = ContextVar("wirefault_attempt")
CURRENT_CALL: ContextVar[Call] = ContextVar("wirefault_call")


def identify(
    attempt: AttemptInProgress, tool_call: dict[str, Any], messages: Sequence[AnyMessage]
) -> Call | None:
    """The call with its numbers; None if there is no such tool or the arguments do not fit its schema."""
    request = _request(tool_call)
    if request is None:
        return None
    replies = [message for message in messages if isinstance(message, AIMessage)]
    # ids are unique within a reply only: some models count from 0 again in each
    index = next(i for i, call in enumerate(replies[-1].tool_calls) if call["id"] == tool_call["id"])
    calls = [call for reply in replies[:-1] for call in reply.tool_calls] + replies[-1].tool_calls[:index]
    tool = BY_NAME[tool_call["name"]]
    ordinal = [_wire_key(dict(call)) for call in calls].count((tool.link, request.fingerprint)) + 1
    return Call(attempt, tool, request, dict(tool_call["args"]), len(replies), index, ordinal)


def _request(tool_call: dict[str, Any]) -> ToolRequest | None:
    tool = BY_NAME.get(tool_call["name"])
    try:
        return tool.request_for(tool_call["args"]) if tool else None
    except (ValidationError, TypeError):
        return None


def _wire_key(tool_call: dict[str, Any]) -> tuple[str, str] | None:
    """Link and fingerprint, which calls of the same request share; None for a call that is not made."""
    request = _request(tool_call)
    return (BY_NAME[tool_call["name"]].link, request.fingerprint) if request else None
