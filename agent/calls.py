"""A tool call: its identity, and its tries over HTTP, each recorded from the caller's view.

A call's numbers determine its faults and its idempotency key. They are set once per call, from the
order of calls in the model's messages, so that parallel calls get the same numbers in every run.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Literal

import requests
from langchain_core.messages import AIMessage, AnyMessage
from pydantic import ValidationError

from agent.exchange import (
    BadReply,
    Connections,
    DeadlinePassed,
    NotReached,
    RateLimited,
    ServiceFailed,
    ServiceRefused,
    SideEffect,
    ToolFailure,
    exchange,
    is_cancellable,
)
from agent.tools import BY_NAME, AgentTool, ToolRequest
from wirefault.core.identity import Identity, body_digest, identifier
from wirefault.history.events import RecoveryTried, ToolTry
from wirefault.recovery.recipes import LoopBreaker
from wirefault.recovery.strategies import AS_SHIPPED, Recovery
from wirefault.state.effects import (
    DEADLINE_HEADER,
    IDEMPOTENCY_HEADER,
    REPLAYED_HEADER,
    TRANSLATOR_HEADER,
    WORLD_HEADER,
    world_key,
)
from wirefault.subjects.subject import AttemptContext

Route = Literal["proxy", "direct"]
MIN_TIMEOUT_S = 0.001
MAX_REPLY_BYTES = 4 * 1024 * 1024
OWN_CALLS = 10_000  # ordinals of calls that no model asked for are above this
PROXY_POLL_S = 0.05  # between two tries to connect to a proxy that is down
_SECONDS = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+")


@dataclass
class AttemptInProgress:
    """The attempt in progress, and its counts so far."""

    context: AttemptContext
    clock: Callable[[], float] = time.monotonic  # seconds
    sleep: Callable[[float], None] = time.sleep
    key: bytes = field(default=b"", repr=False)  # the run's key, which signs each request's identity
    to_close: ExitStack = field(default_factory=ExitStack)  # closed by its creator at the end of the attempt
    connections: Connections | None = field(init=False, default=None)  # None: each try opens its own
    deadline: float = field(init=False)
    model_calls: int = 0
    tool_calls: int = 0
    model_tries: int = 0
    recovery: Recovery = field(default_factory=lambda: AS_SHIPPED)
    retries: int = 0  # by the strategy ``retry``
    began: int = 0  # the attempt in which the conversation began; 0: this one
    loops: LoopBreaker | None = field(init=False, default=None)  # of the strategy ``loop_breaker``
    _recoveries: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        settings = self.context.settings
        self.deadline = self.clock() + settings.attempt_time
        if self.recovery.loop_breaker:
            self.loops = LoopBreaker(self.recovery.loop_breaker.repeats)
        if settings.keep_alive:
            self.connections = Connections()
            self.to_close.callback(self.connections.close)

    @property
    def seconds_left(self) -> float:
        return self.deadline - self.clock()

    def record_recovery(
        self,
        strategy: str,
        success: bool,
        seconds: float,
        *,
        call: Call | None = None,
        preserved: str = "",
        detail: str = "",
    ) -> None:
        """Record one attempt to recover by a strategy of ``RECOVERY``, and number it."""
        identity = self.context.identity
        link, ordinal = (call.tool.link, call.ordinal) if call else ("", 0)
        with self._lock:
            self._recoveries[strategy, call.fingerprint if call else "", ordinal] += 1
            number = self._recoveries[strategy, call.fingerprint if call else "", ordinal]
        self.context.record(
            RecoveryTried(
                *(time.time(), identity.episode, identity.attempt, strategy, number, success),
                *(round(seconds, 3), preserved, link, ordinal, detail),
            )
        )


@dataclass
class Call:
    """One logical tool call; the fields with a default change during the call."""

    attempt: AttemptInProgress
    tool: AgentTool
    request: ToolRequest
    arguments: dict[str, Any]
    reply: int  # number of the model reply that requests it, from 1
    index: int  # its position in that reply
    ordinal: int  # number of times that the model has made the same request
    give_up: float | None = None  # by the attempt's clock; None: no limit but the attempt's
    tries: int = 0
    fallback_used: bool = False
    maybe_executed: bool = False  # the service may have carried out a try that failed
    fingerprint: str = field(init=False)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self.fingerprint = self.request.fingerprint

    def next_try(self) -> int:
        """Count a try and return its number; hedged tries run at the same time."""
        with self._lock:
            self.tries += 1
            return self.tries

    @property
    def seconds_left(self) -> float:
        """Seconds until this call has to end, by the attempt's limit and the strategy ``deadline``."""
        left = self.attempt.seconds_left
        return left if self.give_up is None else min(left, self.give_up - self.attempt.clock())

    @property
    def write(self) -> bool:
        return self.tool.is_write(self.request)

    @property
    def side_effect(self) -> SideEffect:
        """Side effect of a failed call, over all its tries."""
        return "unknown" if self.write and self.maybe_executed else "none"

    @property
    def idempotency_key(self) -> str | None:
        """Key for all tries and the fallback of this call; None for reads, or if the setting is off."""
        recovery, identity = self.attempt.recovery, self.attempt.context.identity
        by = recovery.keys.by if recovery.keys else "none"
        if recovery.as_shipped:
            by = "step" if self.attempt.context.settings.idempotency else "none"
        if not self.write or by == "none":
            return None
        if by == "arguments":
            return identifier("key", identity.run, identity.episode, self.tool.name, self.fingerprint)
        began = self.attempt.began or identity.attempt
        return identifier("key", identity.run, identity.episode, began, self.reply, self.index)

    def identity(self, number: int = 0) -> Identity:
        """Return the identity of the try with this number; by default the last one."""
        return replace(self.attempt.context.identity, call=self.ordinal, try_=number or self.tries)


# Makes a logical tool call: returns the answer as compact JSON, or raises ``ToolFailure``.
Ask = Callable[[Call], str]
CURRENT_ATTEMPT: ContextVar[AttemptInProgress] = ContextVar("wirefault_attempt")
CURRENT_CALL: ContextVar[Call] = ContextVar("wirefault_call")


def identify(
    attempt: AttemptInProgress, tool_call: dict[str, Any], messages: Sequence[AnyMessage]
) -> Call | None:
    """Return the numbered call; None for an unknown tool or arguments that violate its schema."""
    request = _request(tool_call)
    if request is None:
        return None
    replies = [message for message in messages if isinstance(message, AIMessage)]
    # ids are unique only within a reply: some models restart at 0 in each reply
    index = next(i for i, call in enumerate(replies[-1].tool_calls) if call["id"] == tool_call["id"])
    calls = [call for reply in replies[:-1] for call in reply.tool_calls] + replies[-1].tool_calls[:index]
    tool = BY_NAME[tool_call["name"]]
    ordinal = [_wire_key(dict(call)) for call in calls].count((tool.link, request.fingerprint)) + 1
    call = Call(attempt, tool, request, dict(tool_call["args"]), len(replies), index, ordinal)
    if deadline := attempt.recovery.deadline:
        call.give_up = attempt.clock() + deadline.seconds
    return call


def own_call(cause: Call, tool: AgentTool, request: ToolRequest, number: int) -> Call:
    """Return a call that the agent makes for another one, such as a read after a lost reply.

    ``number``: from 1, of such calls for the same cause. Its ordinal is one that no call of the model has, so
    that the faults of the model's calls stay the same.
    """
    ordinal = OWN_CALLS + 100 * cause.ordinal + number
    return Call(cause.attempt, tool, request, {}, cause.reply, cause.index, ordinal, give_up=cause.give_up)


def _request(tool_call: dict[str, Any]) -> ToolRequest | None:
    tool = BY_NAME.get(tool_call["name"])
    try:
        return tool.request_for(tool_call["args"]) if tool else None
    except (ValidationError, TypeError):
        return None


def _wire_key(tool_call: dict[str, Any]) -> tuple[str, str] | None:
    """Return link and fingerprint, the same for equal requests; None for a call that makes no request."""
    request = _request(tool_call)
    return (BY_NAME[tool_call["name"]].link, request.fingerprint) if request else None


@dataclass
class _Observation:
    """The caller's view of a try in progress."""

    number: int  # of the try in its call, from 1
    start: float  # epoch seconds
    clock: float  # the same moment by time.perf_counter
    refused: int = 0  # refused connections before the first that opened
    status: int | None = None
    error: str | None = None
    body: bytes = b""
    digest: str = ""


def try_call(call: Call, route: Route = "proxy") -> str:
    """Make and record one try; return the tool's answer as compact JSON. Raises ``ToolFailure``."""
    if call.give_up is not None and call.seconds_left <= 0:
        call.attempt.record_recovery("deadline", False, 0.0, call=call, detail="call given up")
        raise DeadlinePassed("deadline")
    observed = _Observation(call.next_try(), time.time(), time.perf_counter())
    try:
        return _exchange_when_up(call, route, observed)
    except ToolFailure as failure:
        observed.error = failure.cause
        call.maybe_executed = call.maybe_executed or failure.executed
        raise
    finally:
        _record(call, route, observed)


def _exchange_when_up(call: Call, route: Route, observed: _Observation) -> str:
    """Exchange; while no byte of the request was sent, wait up to ``PROXY_WAIT`` for a proxy that is down."""
    attempt = call.attempt
    give_up = attempt.clock() + (attempt.context.settings.proxy_wait if route == "proxy" else 0)
    while True:
        try:
            return _exchange(call, route, observed)
        except NotReached:
            left = min(give_up - attempt.clock(), attempt.seconds_left)
            if left <= 0:
                raise
            observed.refused += 1
            attempt.sleep(min(PROXY_POLL_S, left))


def _timeout(call: Call, route: Route) -> float:
    settings = call.attempt.context.settings
    seconds = settings.fallback_timeout if route == "direct" else settings.timeout_at(call.tool.link)
    return seconds if call.give_up is None else max(min(seconds, call.seconds_left), MIN_TIMEOUT_S)


def _exchange(call: Call, route: Route, observed: _Observation) -> str:
    seconds = _timeout(call, route)
    prepared = _prepare(call, route, observed.number)
    if call.give_up is not None:
        prepared.headers[DEADLINE_HEADER] = f"{(time.time() + seconds) * 1000:.0f}"
    connections = None if is_cancellable() else call.attempt.connections
    with exchange(prepared, seconds, connections) as reply:
        observed.status = reply.status_code
        for chunk in reply.iter_content(16384):
            observed.body += chunk
            if len(observed.body) > MAX_REPLY_BYTES:
                raise BadReply("bad_reply", "larger than 4 MiB")
    observed.digest = body_digest(observed.body)
    if reply.headers.get(REPLAYED_HEADER) and not call.attempt.recovery.as_shipped:
        call.attempt.record_recovery("keys", True, 0.0, call=call, preserved="the result of the first write")
    return _answer(reply, observed.body)


def _prepare(call: Call, route: Route, number: int) -> requests.PreparedRequest:
    context = call.attempt.context
    addresses = context.topology.proxies if route == "proxy" else context.topology.services
    prepared = call.request.prepare(addresses[call.tool.link].url)
    prepared.headers.update(call.identity(number).headers(call.tool.link, call.fingerprint, call.attempt.key))
    if call.idempotency_key:
        prepared.headers[IDEMPOTENCY_HEADER] = call.idempotency_key
    if route == "direct":  # this route bypasses the gateway, which otherwise sets these headers
        prepared.headers[WORLD_HEADER] = world_key(context.identity.run, context.identity.episode)
        prepared.headers[TRANSLATOR_HEADER] = context.settings.translator_backend
    return prepared


def _answer(reply: requests.Response, body: bytes) -> str:
    answer = _parsed(body)
    status = reply.status_code
    if status >= 500:
        raise ServiceFailed(f"http_{status}", retry_after=_seconds(reply.headers.get("Retry-After")))
    if status == 429:
        raise RateLimited("http_429", retry_after=_seconds(reply.headers.get("Retry-After")))
    if status >= 400:
        raise ServiceRefused(f"http_{status}", _reason(answer))
    # an empty 200 looks like a cut reply, and redirects are not followed
    if status >= 300 or not isinstance(answer, dict):
        raise BadReply("bad_reply")
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))


def _parsed(body: bytes) -> object:
    """Parse JSON; None for a body that is not JSON or cannot be passed on to the model."""
    try:
        answer: object = json.loads(body)
        json.dumps(answer, ensure_ascii=False).encode()  # raises UnicodeEncodeError for a lone surrogate
    except (ValueError, RecursionError):  # RecursionError: the JSON is nested too deeply
        return None
    return answer


def _reason(answer: object) -> str:
    """Return the message of the service's error, cut to a sentence's length: its source is not trusted."""
    error = answer.get("error") if isinstance(answer, dict) else None
    return str(error.get("message") or "")[:300] if isinstance(error, dict) else ""


def _seconds(header: str | None) -> float | None:
    """Parse a Retry-After header in seconds; None for a date or a missing header."""
    if header is None or not _SECONDS.fullmatch(header.strip()):
        return None
    return float(header)


def _record(call: Call, route: Route, observed: _Observation) -> None:
    identity = call.identity(observed.number)
    call.attempt.context.record(
        ToolTry(
            episode=identity.episode,
            attempt=identity.attempt,
            tool=call.tool.name,
            link=call.tool.link,
            fingerprint=call.fingerprint,
            call=identity.call,
            try_=identity.try_,
            start=observed.start,
            end=time.time(),
            ms=round((time.perf_counter() - observed.clock) * 1000, 3),
            timeout_ms=_timeout(call, route) * 1000,
            status=observed.status,
            error=observed.error,
            reply_bytes=len(observed.body),
            write=call.write,
            idempotency_key=call.idempotency_key,
            route=route,
            reply_digest=observed.digest,
            refused=observed.refused,
        )
    )
