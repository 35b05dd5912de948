"""One HTTP try of a tool call: a bounded time, and a record of what the caller saw."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, IncompleteRead, RemoteDisconnected
from typing import Literal

import requests
import urllib3

from agent.bounded import exchange
from agent.calls import Call
from agent.errors import (
    BadReply,
    ConnectionLost,
    NotReached,
    RateLimited,
    ServiceFailed,
    ServiceRefused,
    TimedOut,
    ToolFailure,
)
from wirefault.core.digest import body_digest
from wirefault.core.worlds import IDEMPOTENCY_HEADER, TRANSLATOR_HEADER, WORLD_HEADER, world_of
from wirefault.history.events import ToolTry

MAX_REPLY_BYTES = 4 * 1024 * 1024
Route = Literal["proxy", "direct"]
# How often a try that waits for a proxy looks whether it is there again.
PROXY_POLL_S = 0.05
_SECONDS = re.compile(r"[0-9]+(\.[0-9]*)?|\.[0-9]+")


def try_call(call: Call, route: Route = "proxy") -> str:
    """Makes and records one try; returns the tool's answer as compact JSON. Raises ``ToolFailure``."""
    call.tries += 1
    seen = _Seen(time.time(), time.perf_counter())
    try:
        return _exchange_when_up(call, route, seen)
    except ToolFailure as failure:
        seen.error = failure.cause
        call.maybe_executed = call.maybe_executed or failure.executed
        raise
    finally:
        _record(call, route, seen)


class _Seen:
    """What the caller has seen of one try so far.

    ``start`` is in seconds since the epoch, ``clock`` the same moment of ``time.perf_counter``. ``refused``:
    how often its connection was refused before it had one.
    """

    def __init__(self, start: float, clock: float) -> None:
        self.start = start
        self.clock = clock
        self.refused = 0
        self.status: int | None = None
        self.error: str | None = None
        self.body = b""
        self.digest = ""


def _exchange_when_up(call: Call, route: Route, seen: _Seen) -> str:
    """Waits up to ``PROXY_WAIT`` for a proxy that is down, as long as no byte of the request was sent."""
    attempt = call.attempt
    give_up = attempt.clock() + (attempt.context.settings.proxy_wait if route == "proxy" else 0)
    while True:
        try:
            return _exchange(call, route, seen)
        except NotReached:
            left = min(give_up - attempt.clock(), attempt.seconds_left)
            if left <= 0:
                raise
            seen.refused += 1
            attempt.sleep(min(PROXY_POLL_S, left))


def _timeout(call: Call, route: Route) -> float:
    settings = call.attempt.context.settings
    return settings.fallback_timeout if route == "direct" else settings.timeout_at(call.tool.link)


def _exchange(call: Call, route: Route, seen: _Seen) -> str:
    prepared = _prepare(call, route)
    with _mapped(), exchange(prepared, _timeout(call, route), call.attempt.connections) as reply:
        seen.status = reply.status_code
        for chunk in reply.iter_content(16384):
            seen.body += chunk
            if len(seen.body) > MAX_REPLY_BYTES:
                raise BadReply("bad_reply", "larger than 4 MiB")
    seen.digest = body_digest(seen.body)
    return _answer(reply, seen.body)


def _prepare(call: Call, route: Route) -> requests.PreparedRequest:
    context = call.attempt.context
    addresses = context.topology.proxies if route == "proxy" else context.topology.services
    prepared = call.request.prepare(addresses[call.tool.link].url)
    prepared.headers.update(call.identity().headers(call.tool.link, call.fingerprint))
    if call.idempotency_key:
        prepared.headers[IDEMPOTENCY_HEADER] = call.idempotency_key
    if route == "direct":  # this route goes past the gateway, which sets these headers elsewhere
        prepared.headers[WORLD_HEADER] = world_of(context.identity.run, context.identity.episode)
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
    # an empty 200 is unreadable too, since a cut reply looks like one; so is a redirect: none is followed
    if status >= 300 or not isinstance(answer, dict):
        raise BadReply("bad_reply")
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))


def _parsed(body: bytes) -> object:
    """The body's JSON value; None for a body that is not JSON or cannot be passed on to the model."""
    try:
        answer: object = json.loads(body)
        json.dumps(answer, ensure_ascii=False).encode()  # raises UnicodeEncodeError for a lone surrogate
    except (ValueError, RecursionError):  # RecursionError: the JSON is nested too deeply
        return None
    return answer


def _reason(answer: object) -> str:
    """The message in the service's error; cut to a sentence's length, since it may come from anyone."""
    error = answer.get("error") if isinstance(answer, dict) else None
    return str(error.get("message") or "")[:300] if isinstance(error, dict) else ""


def _seconds(header: str | None) -> float | None:
    """The seconds of a Retry-After header; None without one, and for a date."""
    if header is None or not _SECONDS.fullmatch(header.strip()):
        return None
    return float(header)


@contextmanager
def _mapped() -> Iterator[None]:
    """Turns the errors of ``requests`` into ``ToolFailure``."""
    try:
        yield
    except requests.exceptions.ConnectTimeout:
        raise NotReached("connect_timeout") from None
    except requests.exceptions.Timeout:
        raise TimedOut("read_timeout") from None
    except (requests.exceptions.ConnectionError, requests.exceptions.ChunkedEncodingError) as error:
        raise _connection_failure(error) from None
    except requests.exceptions.RequestException as error:
        raise BadReply("bad_reply", type(error).__name__) from None


def _connection_failure(error: BaseException) -> ToolFailure:
    causes = list(_causes(error))

    def among(*kinds: type[BaseException]) -> bool:
        return any(isinstance(cause, kinds) for cause in causes)

    if among(TimeoutError, urllib3.exceptions.ReadTimeoutError):
        return TimedOut("read_timeout")
    if among(urllib3.exceptions.NewConnectionError):  # refused, no route, no such host
        return NotReached("connection_refused")
    if among(urllib3.exceptions.InvalidChunkLength):
        return BadReply("bad_reply")
    # before ConnectionResetError, of which RemoteDisconnected is a subclass although nothing was reset
    if among(RemoteDisconnected, IncompleteRead):
        return ConnectionLost("connection_closed")
    if among(ConnectionResetError, BrokenPipeError):
        return ConnectionLost("connection_reset")
    if among(HTTPException):  # no HTTP
        return BadReply("bad_reply")
    return ConnectionLost("connection_closed")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and every error that it is chained to or carries as an argument or a reason."""
    waiting, seen = [error], set()
    while waiting:
        cause = waiting.pop()
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        related = (cause.__cause__, cause.__context__, getattr(cause, "reason", None), *cause.args)
        waiting += [other for other in related if isinstance(other, BaseException)]


def _record(call: Call, route: Route, seen: _Seen) -> None:
    context = call.attempt.context
    identity = call.identity()
    context.record(
        ToolTry(
            episode=identity.episode,
            attempt=identity.attempt,
            tool=call.tool.name,
            link=call.tool.link,
            fingerprint=call.fingerprint,
            call=identity.call,
            try_=identity.try_,
            start=seen.start,
            end=time.time(),
            ms=round((time.perf_counter() - seen.clock) * 1000, 3),
            timeout_ms=_timeout(call, route) * 1000,
            status=seen.status,
            error=seen.error,
            reply_bytes=len(seen.body),
            write=call.write,
            idempotency_key=call.idempotency_key,
            route=route,
            reply_digest=seen.digest,
            refused=seen.refused,
        )
    )
