"""Events that the runner writes for the lab's own agent, which records its calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from wirefault.history.lines import BaseEvent, Clock

RefusalReason = Literal["unknown_tool", "bad_arguments", "malformed"]


class ModelCall(BaseEvent, frozen=True, tag="model_call"):
    """One HTTP try at the model."""

    t: Clock
    episode: str
    attempt: int
    ordinal: int  # number of the model request in the attempt, from 1
    ms: Clock
    status: int | None
    try_: int = 1
    error: str | None = None
    reply_digest: str = ""  # BLAKE2b (8 bytes, hexadecimal) of the body; empty if it was not read to its end


class ToolTry(BaseEvent, frozen=True, tag="tool_try"):
    """One HTTP try of a tool call, from the caller's view."""

    episode: str
    attempt: int
    tool: str
    link: str
    fingerprint: str
    call: int
    start: Clock
    end: Clock
    ms: Clock
    timeout_ms: Clock
    status: int | None
    reply_bytes: int
    try_: int = 1
    # None for a valid reply with a status below 400, ``http_<status>`` for another status, else read_timeout,
    # connect_timeout, connection_refused, connection_closed, connection_reset, bad_reply or cancelled
    error: str | None = None
    write: bool = False
    idempotency_key: str | None = None
    route: Literal["proxy", "direct"] = "proxy"  # direct: the fallback past proxies and gateway
    reply_digest: str = ""  # BLAKE2b (8 bytes, hexadecimal) of the body; empty if it did not arrive whole
    refused: int = 0  # refused connections before this one (PROXY_WAIT); ``ms`` includes that time


class ToolCalled(BaseEvent, frozen=True, tag="tool_call"):
    """One logical tool call and the result that the model received."""

    t: Clock
    episode: str
    attempt: int
    reply: int
    index: int
    tool: str
    link: str
    arguments: Mapping[str, Any]
    fingerprint: str
    call: int
    tries: int
    ok: bool
    side_effect: str  # none, done or unknown
    result: str
    error: str | None = None
    fallback_used: bool = False


class ToolCallRefused(BaseEvent, frozen=True, tag="tool_call_refused"):
    """A tool call of the model that the subject refused without sending a request."""

    t: Clock
    episode: str
    attempt: int
    reply: int
    index: int  # position in the reply; malformed calls are last
    tool: str  # as the model wrote it, like ``arguments``; long ones are cut
    arguments: str
    # unknown_tool, bad_arguments (of a tool or the report; they do not fit the schema), malformed (not JSON)
    why: RefusalReason
    detail: str


class RecoveryTried(BaseEvent, frozen=True, tag="recovery"):
    """One attempt of the subject to recover from a failure, by one of the strategies of ``RECOVERY``."""

    t: Clock
    episode: str
    attempt: int
    strategy: str  # its name in ``RECOVERY``
    number: int  # from 1, of this strategy in this call, or in this attempt outside any call
    success: bool
    seconds: Clock  # that it took, waits included
    preserved: str  # what it kept that would have been lost otherwise, in words; empty: nothing
    link: str = ""
    call: int = 0  # as in ``ToolTry``; 0: no tool call
    detail: str = ""  # such as a breaker's change of state
