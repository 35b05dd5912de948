"""One HTTP exchange that ends at a deadline, and its failures, mapped once from ``requests`` and HTTP.

A timeout of ``requests`` limits only each wait for bytes, so a reply that comes byte by byte would never end.

ToolFailure
├── NoReply            the service may have executed the request
│   ├── TimedOut
│   ├── ConnectionLost
│   ├── Cancelled      by this agent
│   └── BadReply
│       └── CheckFailed
├── NotReached         the request was not sent
├── ServiceFailed      5xx
├── RateLimited        429
├── BreakerOpen        no request was sent, nor for the next two
├── DeadlinePassed
├── LoopRefused
├── Denied             by a person
│   └── HandedOver     to a person who has not answered
├── Unverified         the reply of a write was lost, and the read after it failed
└── ServiceRefused     any other 4xx
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from http.client import HTTPException, IncompleteRead, RemoteDisconnected
from typing import Any, Literal

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection

from wirefault.core.caller_errors import CANCELLED

SideEffect = Literal["none", "unknown"]
_EARLIER = " Whether an earlier try took effect is unknown."
# deadline of this thread's exchange, by time.perf_counter; a kept-alive connection serves several exchanges
_DEADLINE: ContextVar[float] = ContextVar("wirefault_deadline")
# of this thread's exchanges, if another thread may end them
_CANCELLATION: ContextVar[Cancellation | None] = ContextVar("wirefault_cancellation", default=None)


class ToolFailure(Exception):
    """One failed try of a tool call.

    The history names it by its ``cause`` (``read_timeout``, ``http_503``...). The model gets ``code`` and
    ``reason``, which contain no numbers, so that they are the same in every run.
    """

    code = "failed"
    reason = "The tool failed."
    retryable = True
    executed = True  # a write may have been executed despite the failure

    def __init__(self, cause: str, detail: str = "", retry_after: float | None = None) -> None:
        super().__init__(f"{cause}: {detail}" if detail else cause)
        self.cause = cause
        self.detail = detail
        self.retry_after = retry_after  # seconds

    def for_model(self, side_effect: SideEffect) -> str:
        """Return the text of the ToolMessage that reports the failure to the model, as JSON."""
        message = f"{self.reason} {self.detail}".strip() if isinstance(self, ServiceRefused) else self.reason
        if side_effect == "unknown":
            message += " Whether it took effect is unknown." if self.executed else _EARLIER
        return json.dumps({"error": {"code": self.code, "message": message, "side_effect": side_effect}})


class NoReply(ToolFailure):
    pass


class TimedOut(NoReply):
    code = "timeout"
    reason = "The tool did not answer in time."


class ConnectionLost(NoReply):
    code = "connection_lost"
    reason = "The connection to the tool was lost before it answered."


class BadReply(NoReply):
    code = "bad_reply"
    reason = "The tool's answer was unreadable."


class Cancelled(NoReply):
    reason = "The request was cancelled."


class NotReached(ToolFailure):
    code = "not_reached"
    reason = "The tool could not be reached."
    executed = False


class ServiceFailed(ToolFailure):
    code = "service_failed"
    reason = "The tool reported a failure itself."


class RateLimited(ToolFailure):
    code = "rate_limited"
    reason = "The tool refuses more requests for now."
    executed = False


class CheckFailed(BadReply):
    code = "implausible"
    reason = "The tool's answer failed a check."


class BreakerOpen(ToolFailure):
    code = "breaker_open"
    reason = "The tool failed several times, so it is not called for now."
    retryable = False
    executed = False


class DeadlinePassed(ToolFailure):
    code = "deadline"
    reason = "The time for this call is over."
    retryable = False
    executed = False


class Unverified(ToolFailure):
    code = "unverified"
    reason = "The reply was lost, and the state could not be read."
    retryable = False


class LoopRefused(ToolFailure):
    code = "loop"
    reason = "You made this call several times with the same result. Do not make it again."
    retryable = False
    executed = False


class Denied(ToolFailure):
    code = "denied"
    reason = "A person decided that this call is not made again. Do not make it again."
    retryable = False


class HandedOver(Denied):
    code = "handed_over"
    reason = "A person has this call and has not decided yet. Do not make it again; finish the other parts."


class ServiceRefused(ToolFailure):
    code = "refused"
    reason = "The tool refused the request."
    retryable = False
    executed = False


class _Socket(socket.socket):
    """A socket that raises ``TimeoutError`` after the exchange's deadline."""

    def recv_into(self, *arguments: Any, **options: Any) -> int:
        self._shorten_timeout()
        return super().recv_into(*arguments, **options)

    def sendall(self, *arguments: Any, **options: Any) -> None:
        self._shorten_timeout()
        super().sendall(*arguments, **options)

    def _shorten_timeout(self) -> None:
        left = _DEADLINE.get() - time.perf_counter()
        if left <= 0:
            raise TimeoutError("timed out")
        self.settimeout(left)


class _Connection(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        plain = super()._new_conn()
        opened = _Socket(plain.family, plain.type, plain.proto, fileno=plain.detach())
        if (cancellation := _CANCELLATION.get()) is not None:
            cancellation.register(opened)
        return opened


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class Connections(HTTPAdapter):
    """The kept-alive connections of one client.

    Not a session of ``requests``, which would obey HTTP_PROXY and .netrc, and follow redirects.
    """

    def __init__(self) -> None:
        super().__init__()
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool}

    def close(self) -> None:
        # pools that their manager drops close their connections only at garbage collection
        pools = self.poolmanager.pools
        for key in list(pools.keys()):
            pools[key].close()
        super().close()


class Cancellation:
    """Lets another thread end the exchanges of the thread that entered it."""

    def __init__(self) -> None:
        self._sockets: list[socket.socket] = []
        self._lock = threading.Lock()
        self.cancelled = False

    @contextmanager
    def observed(self) -> Iterator[None]:
        """Make exchanges of this thread inside the block end when ``cancel`` is called."""
        token = _CANCELLATION.set(self)
        try:
            yield
        finally:
            _CANCELLATION.reset(token)

    def register(self, opened: socket.socket) -> None:
        with self._lock:
            self._sockets.append(opened)
        if self.cancelled:
            _shut_down(opened)

    def cancel(self) -> None:
        """End the exchanges, also those that start later: each raises ``Cancelled``."""
        with self._lock:
            self.cancelled = True
            for each in self._sockets:
                _shut_down(each)


def is_cancellable() -> bool:
    """Return whether another thread may end this thread's exchanges, which need their own connections."""
    return _CANCELLATION.get() is not None


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):  # closed, or not connected
        connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def exchange(
    prepared: requests.PreparedRequest, timeout: float, connections: Connections | None = None
) -> Iterator[requests.Response]:
    """Send a request and yield the reply with its body unread. Raises ``ToolFailure``, also during reading.

    ``timeout``: seconds from now to the last byte of the body. Without ``connections`` it opens one
    for this exchange.
    """
    opened: AbstractContextManager[Connections] = (
        closing(Connections()) if connections is None else nullcontext(connections)
    )
    token = _DEADLINE.set(time.perf_counter() + timeout)
    try:
        with opened as adapter, adapter.send(prepared, stream=True, timeout=timeout) as reply:
            yield reply
    except requests.exceptions.ConnectTimeout:
        raise NotReached("connect_timeout") from None
    except requests.exceptions.Timeout:
        raise TimedOut("read_timeout") from None
    except (requests.exceptions.ConnectionError, requests.exceptions.ChunkedEncodingError) as error:
        if (cancellation := _CANCELLATION.get()) is not None and cancellation.cancelled:
            raise Cancelled(CANCELLED) from None
        raise _connection_failure(error) from None
    except requests.exceptions.RequestException as error:
        raise BadReply("bad_reply", type(error).__name__) from None
    finally:
        _DEADLINE.reset(token)


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
    # before ConnectionResetError, a superclass of RemoteDisconnected, although nothing was reset
    if among(RemoteDisconnected, IncompleteRead):
        return ConnectionLost("connection_closed")
    if among(ConnectionResetError, BrokenPipeError):
        return ConnectionLost("connection_reset")
    if among(HTTPException):  # the reply is not HTTP
        return BadReply("bad_reply")
    return ConnectionLost("connection_closed")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error and all errors in its chain, its arguments and its reason."""
    waiting, visited = [error], set()
    while waiting:
        cause = waiting.pop()
        if id(cause) in visited:
            continue
        visited.add(id(cause))
        yield cause
        related = (cause.__cause__, cause.__context__, getattr(cause, "reason", None), *cause.args)
        waiting += [other for other in related if isinstance(other, BaseException)]
