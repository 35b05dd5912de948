"""One call of a function through the lab: the request, its executions in the caller, and the reply."""

from __future__ import annotations

import asyncio
import json
import select
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from .connections import Caller, CallRefused, LabGone, Place, give_back, place, take, warn_once
from .reach import may_send
from .replies import (
    BadMessage,
    Incoming,
    failed,
    lost,
    refused,
    reply_bytes,
    request_bytes,
    unreadable,
)
from .values import JSON_TYPE, Arguments, decoded, encoded

_PIECE = 1 << 16
_OUTLIVED, _REFUSED, _EXCEPTION, _GOOD, _BAD = 421, 409, 500, 200, 400
# Exceptions by which a function asks its framework for something: they are no failure.
_CONTROL_FLOW = frozenset(
    {"GraphBubbleUp", "GraphInterrupt", "ParentCommand", "ModelRetry", "CallDeferred", "ApprovalRequired"}
)
_ENDED = "the connection ended without a reply"


class _Outcome:
    """The result or exception of one execution, and its reply."""

    def __init__(self, value: Any = None, error: Exception | None = None) -> None:
        self.value, self.error = value, error
        if error is None:
            self.status = _GOOD
            self.content_type, self.body = encoded(value)
        else:
            names = {each.__name__ for each in type(error).__mro__}
            self.status = _REFUSED if names & _CONTROL_FLOW else _EXCEPTION
            body = {"error": {"type": type(error).__name__, "message": str(error)}}
            self.content_type, self.body = JSON_TYPE, json.dumps(body).encode()

    @property
    def reply(self) -> bytes:
        return reply_bytes(self.status, self.content_type, self.body)


class _Call:
    """The state of one call, without input and output."""

    def __init__(
        self, function: Callable[..., Any], name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> None:
        self._began = time.perf_counter()
        self._function = function
        self._path = "/" + quote(name, safe="")
        self._url = f"http://functions{self._path}"
        self._arguments = Arguments(function, args, kwargs)
        self._may_send = may_send(function, args)
        self._request = Incoming()
        self._pending = b""
        self.reply = Incoming()
        self.outcome: _Outcome | None = None

    def request(self, token: str, *, writes: bool | None) -> bytes:
        marks = {"Tool-Sends": self._may_send, "Tool-Writes": bool(writes)}
        method = "QUERY" if writes is False else "POST"
        waited_s = time.perf_counter() - self._began
        return request_bytes(method, self._path, token, self._arguments.body, marks, waited_s)

    def take_return(self, data: bytes) -> list[tuple[tuple[Any, ...], Mapping[str, Any]]]:
        """Take bytes of the return connection; return the arguments of each execution that they ask for.

        Raises ``OSError`` if they are not a call.
        """
        executions: list[tuple[tuple[Any, ...], Mapping[str, Any]]] = []
        self._pending += data
        while self._pending:
            try:
                self._pending = self._request.feed(self._pending)
                if not self._request.done:
                    break
                request, self._request = self._request, Incoming()
                executions.append(self._arguments.from_body(request.body))
            except ValueError as error:
                raise OSError(f"not a call: {error}") from None
        return executions

    def result(self) -> Any:
        """Return what the caller gets, or raise it."""
        own, reply = self.outcome, self.reply
        if own is not None and (own.status, own.body) == (reply.status, reply.body) and reply.done:
            if own.error is not None:
                raise own.error
            return own.value
        if not reply.done:
            raise lost(self._function, self._url, _ENDED)
        if reply.status >= _BAD:
            raise failed(self._function, self._url, reply)
        original = own.value if own is not None else None
        if own is None and reply.content_type != JSON_TYPE:
            original = ""  # a text
        try:
            return decoded(reply.body, reply.content_type, original)
        except ValueError as error:
            raise unreadable(self._function, error) from None

    def take_reply(self, data: bytes) -> bool:
        """Take bytes of the reply; return whether no more are needed."""
        if not data:
            self.reply.end()
            return True
        try:
            self.reply.feed(data)
        except BadMessage as error:
            raise lost(self._function, self._url, str(error)) from None
        return self.reply.done

    def refused(self, error: OSError) -> Exception:
        return refused(self._function, self._url, str(error))

    @property
    def was_outlived(self) -> bool:
        """Whether the connection belonged to an attempt that is over, so that nothing was carried out."""
        return self.reply.status == _OUTLIVED and self.outcome is None


def call_function(
    function: Callable[..., Any],
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    writes: bool | None,
) -> Any:
    """Call it through the lab if there is one; the function runs in this thread and context."""
    where = place()
    if where is None:
        return function(*args, **kwargs)
    for again in (False, True):
        call = _Call(function, name, args, kwargs)
        try:
            caller = take(where, fresh=again)
        except LabGone as error:
            warn_once(error)
            return function(*args, **kwargs)
        except CallRefused as error:
            raise call.refused(error) from None
        try:
            _exchange(call, caller, function, writes=writes)
        finally:
            _finish(call, where, caller)
        if again or not call.was_outlived:
            break
    return call.result()


def _exchange(call: _Call, caller: Caller, function: Callable[..., Any], *, writes: bool | None) -> None:
    caller.set_blocking(True)
    watched = [caller.calls, caller.returns]
    try:
        caller.calls.sendall(call.request(caller.token, writes=writes))
        while True:
            readable, _, _ = select.select(watched, [], [])
            if caller.returns in readable:
                data = caller.returns.recv(_PIECE)
                if not data:
                    watched.remove(caller.returns)
                for args, kwargs in call.take_return(data):
                    call.outcome = _executed(function, args, kwargs)
                    caller.returns.sendall(call.outcome.reply)
            elif call.take_reply(caller.calls.recv(_PIECE)):
                return
    except OSError:
        call.reply.done = False


def _executed(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> _Outcome:
    try:
        return _Outcome(function(*args, **kwargs))
    except Exception as error:  # noqa: BLE001 - it is the function's own, and reaches the caller
        return _Outcome(error=error)


async def call_coroutine(
    function: Callable[..., Awaitable[Any]],
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    writes: bool | None,
) -> Any:
    """Call a coroutine function through the lab; it runs in this task and context."""
    where = place()
    loop = _asyncio_loop()
    if where is None or loop is None:
        return await function(*args, **kwargs)
    for again in (False, True):
        call = _Call(function, name, args, kwargs)
        try:
            caller = await loop.run_in_executor(None, lambda fresh=again: take(where, fresh=fresh))  # type: ignore[misc]
        except LabGone as error:
            warn_once(error)
            return await function(*args, **kwargs)
        except CallRefused as error:
            raise call.refused(error) from None
        try:
            await _exchange_async(loop, call, caller, function, writes=writes)
        finally:
            _finish(call, where, caller)
        if again or not call.was_outlived:
            break
    return call.result()


def _asyncio_loop() -> asyncio.AbstractEventLoop | None:
    """Return the running loop; None under another library's."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def _exchange_async(
    loop: asyncio.AbstractEventLoop,
    call: _Call,
    caller: Caller,
    function: Callable[..., Awaitable[Any]],
    *,
    writes: bool | None,
) -> None:
    caller.set_blocking(False)
    returns_open = True
    try:
        await loop.sock_sendall(caller.calls, call.request(caller.token, writes=writes))
        while True:
            watched = [caller.calls, *([caller.returns] if returns_open else [])]
            await _any_readable(loop, watched)
            data = _received(caller.returns) if returns_open else None
            if data is not None:
                returns_open = bool(data)
                for args, kwargs in call.take_return(data):
                    call.outcome = await _executed_async(function, args, kwargs)
                    await loop.sock_sendall(caller.returns, call.outcome.reply)
                continue
            data = _received(caller.calls)
            if data is not None and call.take_reply(data):
                return
    except OSError:
        call.reply.done = False


def _received(connection: Any) -> bytes | None:
    """Return what has come; None if nothing has."""
    try:
        data: bytes = connection.recv(_PIECE)
    except BlockingIOError:
        return None
    return data


async def _any_readable(loop: asyncio.AbstractEventLoop, connections: Sequence[Any]) -> None:
    ready: asyncio.Future[None] = loop.create_future()

    def on_readable() -> None:
        if not ready.done():
            ready.set_result(None)

    for connection in connections:
        loop.add_reader(connection, on_readable)
    try:
        await ready
    finally:
        for connection in connections:
            loop.remove_reader(connection)


async def _executed_async(
    function: Callable[..., Awaitable[Any]], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> _Outcome:
    try:
        return _Outcome(await function(*args, **kwargs))
    except Exception as error:  # noqa: BLE001 - it is the function's own, and reaches the caller
        return _Outcome(error=error)


def _finish(call: _Call, where: Place, caller: Caller) -> None:
    if call.reply.done and call.reply.keeps_connection:
        give_back(where, caller)
    else:
        caller.close()
