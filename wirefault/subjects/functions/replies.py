"""Requests and replies of HTTP as far as calls of functions need them, and the errors that failures raise."""

from __future__ import annotations

import json
import sys
import urllib.error
from collections.abc import Callable, Mapping
from email.message import Message
from io import BytesIO
from typing import Any

_END = b"\r\n\r\n"
_GOOD, _BAD_STATUS = 200, 400


class BadMessage(ValueError):
    """Bytes that are not HTTP."""


class Incoming:
    """A request or reply as it arrives. ``start``: the words of its first line."""

    def __init__(self) -> None:
        self.start: tuple[str, ...] = ()
        self.headers: dict[str, str] = {}
        self.body = b""
        self.done = False
        self._head = self._rest = b""

    @property
    def begun(self) -> bool:
        return bool(self._head or self.start)

    @property
    def status(self) -> int:
        return int(self.start[1]) if len(self.start) > 1 and self.start[1].isdigit() else 0

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def feed(self, data: bytes) -> bytes:
        """Take more bytes; return those after its end. Raises ``BadMessage``."""
        if not self.start:
            self._head += data
            head, end, data = self._head.partition(_END)
            if not end:
                return b""
            self._read_head(head)
        if "chunked" in self.headers.get("transfer-encoding", "").lower():
            return self._feed_chunks(data)
        length = self.headers.get("content-length")
        if length is None and self.is_request:
            length = "0"
        if length is None:  # until the connection ends
            self.body += data
            return b""
        if not length.strip().isdigit():
            raise BadMessage("a bad Content-Length")
        needed = int(length) - len(self.body)
        self.body += data[:needed]
        self.done = len(self.body) >= int(length)
        return data[needed:]

    @property
    def is_request(self) -> bool:
        return bool(self.start) and not self.start[0].startswith("HTTP/")

    def end(self) -> None:
        """The connection has ended: a reply without a length is whole by that."""
        if self.start and not ({"content-length", "transfer-encoding"} & set(self.headers)):
            self.done = True

    @property
    def keeps_connection(self) -> bool:
        return self.done and "close" not in self.headers.get("connection", "").lower()

    def _read_head(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.start = tuple(first.split(" ", 2))
        if len(self.start) < 2:
            raise BadMessage(f"not HTTP: {first[:80]}")
        for line in lines:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()

    def _feed_chunks(self, data: bytes) -> bytes:
        rest = self._rest + data
        while True:
            line, end, more = rest.partition(b"\r\n")
            if not end:
                break
            try:
                size = int(line.partition(b";")[0], 16)
            except ValueError:
                raise BadMessage("a bad chunk") from None
            if len(more) < size + 2:
                break
            self.body += more[:size]
            rest = more[size + 2 :]
            if size == 0:
                self.done = True
                return rest
        self._rest = rest
        return b""


def request_bytes(
    method: str, path: str, token: str, body: bytes, marks: Mapping[str, bool], waited_s: float = 0.0
) -> bytes:
    """Return the request that calls a function. ``marks``: headers that say something about it if true.
    ``waited_s``: how long ago the call began.
    """
    lines = "".join(f"{name}: yes\r\n" for name, holds in marks.items() if holds)
    lines += f"Tool-Waited: {waited_s * 1000:.3f}\r\n"
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: functions\r\nTool-Caller: {token}\r\n{lines}"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("latin-1") + body


def reply_bytes(status: int, content_type: str, body: bytes) -> bytes:
    """Return the reply with a function's result."""
    reason = "OK" if status == _GOOD else "Exception"
    head = (
        f"HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("latin-1") + body


def lost(function: Callable[..., Any], url: str, reason: str) -> Exception:
    """Return the error of a call whose connection ended: as the function's own HTTP client raises it, if it
    has one, else ``ConnectionResetError``.
    """
    client = _client_of(function)
    if client is not None and client.__name__ == "httpx":
        return client.RemoteProtocolError(reason, request=client.Request("POST", url))  # type: ignore[no-any-return]
    if client is not None:
        return client.exceptions.ConnectionError(reason)  # type: ignore[no-any-return]
    return ConnectionResetError(reason)


def refused(function: Callable[..., Any], url: str, reason: str) -> Exception:
    """Return the error of a call whose connection was refused."""
    client = _client_of(function)
    if client is not None and client.__name__ == "httpx":
        return client.ConnectError(reason, request=client.Request("POST", url))  # type: ignore[no-any-return]
    if client is not None:
        return client.exceptions.ConnectionError(reason)  # type: ignore[no-any-return]
    return ConnectionRefusedError(reason)


def failed(function: Callable[..., Any], url: str, reply: Incoming) -> Exception:
    """Return the error of a call that was answered with a bad status: as the function's own HTTP client
    raises it, if it has one, else ``urllib.error.HTTPError``.
    """
    reason = reply.start[2] if len(reply.start) > 2 else ""
    message = f"{reply.status} {reason} for {url}"
    client = _client_of(function)
    if client is not None and client.__name__ == "httpx":
        request = client.Request("POST", url)
        response = client.Response(reply.status, headers=reply.headers, content=reply.body, request=request)
        return client.HTTPStatusError(message, request=request, response=response)  # type: ignore[no-any-return]
    if client is not None:
        response = client.Response()
        response.status_code, response.url, response.reason = reply.status, url, reason
        response.headers.update(reply.headers)
        response._content = reply.body
        return client.exceptions.HTTPError(message, response=response)  # type: ignore[no-any-return]
    headers = Message()
    for name, value in reply.headers.items():
        headers[name] = value
    return urllib.error.HTTPError(url, reply.status, reason, headers, BytesIO(reply.body))


def unreadable(function: Callable[..., Any], error: ValueError) -> Exception:
    """Return the error of a reply that is not JSON, as the function's own HTTP client raises it."""
    client = _client_of(function)
    if client is not None and client.__name__ == "requests" and isinstance(error, json.JSONDecodeError):
        return client.exceptions.JSONDecodeError(error.msg, error.doc, error.pos)  # type: ignore[no-any-return]
    return error


def _client_of(function: Callable[..., Any]) -> Any | None:
    """Return the HTTP client that the function's module has imported: httpx, requests, or None."""
    names = getattr(function, "__globals__", {})
    for name in ("httpx", "requests"):
        module = sys.modules.get(name)
        if module is not None and names.get(name) is module:
            return module
    return None
