"""Converts between bytes on the wire and the messages that faults see. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from operator import methodcaller

from wirefault.dialects.base import typed_error
from wirefault.dialects.http import (
    Headers,
    Reply,
    ReplyInPieces,
    Request,
    Step,
    chunk,
    head_bytes,
    reason_phrase,
)
from wirefault.dialects.tool import TOOL
from wirefault.gateway.http1.heads import RequestHead, read_request

_REQUEST_FRAMING = frozenset(("content-length", "transfer-encoding", "expect", "trailer"))
_REPLY_FRAMING = frozenset(
    ("content-length", "transfer-encoding", "connection", "trailer", "content-encoding")
)
_PARTS_OF_HEADER = methodcaller("partition", ":")
_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))


def request_of(head: RequestHead, body: bytes) -> Request:
    """Return the request as faults see it; ``body`` is free of framing."""
    return Request(_headers(head.lines[1:]), body, head.method, head.target)


def reframed(request: Request, original: RequestHead) -> tuple[RequestHead, bytes]:
    """Return the head and body that are sent for a changed request. Raises ``ValueError``."""
    version = original.lines[0].rpartition(b" ")[2].decode()
    lines = [f"{request.method} {request.target} {version}"]
    lines += [f"{name}: {value}" for name, value in request.headers if name.lower() not in _REQUEST_FRAMING]
    if request.body or original.length or original.chunked or request.method in _WITH_BODY:
        lines.append(f"Content-Length: {len(request.body)}")
    if any(character in line for line in lines for character in "\r\n\0"):
        raise ValueError("a line of the changed request has a line end in it")
    return read_request("\r\n".join([*lines, "", ""]).encode("latin-1")), request.body


def ask_for_identity(head: RequestHead) -> str:
    """Ask the upstream for an uncompressed reply; return the encodings that the client accepts."""
    accepted = []
    for at, line in enumerate(head.lines):
        name, _, value = line.partition(b":")
        if at and name.lower() == b"accept-encoding":
            accepted.append(value.strip().decode("latin-1"))
            head.lines[at] = name + b": identity"
    return ", ".join(accepted)


def reply_of(block: bytes, body: bytes = b"") -> Reply:
    """Return the reply as faults see it: headers and decoded body, without framing and Content-Encoding."""
    first, *lines = block[:-4].split(b"\r\n")
    headers = tuple((name, value) for name, value in _headers(lines) if name.lower() not in _REPLY_FRAMING)
    status, _, reason = first.partition(b" ")[2].decode("latin-1").partition(" ")
    return Reply(headers, body, int(status), "" if reason == reason_phrase(int(status)) else reason)


def content_encoding(block: bytes) -> str:
    values = [value for name, value in headers_of(block) if name.lower() == "content-encoding"]
    return ", ".join(values).lower()


def headers_of(block: bytes) -> Headers:
    """Return all headers of a reply's header block."""
    return _headers(block[:-4].split(b"\r\n")[1:])


def _headers(lines: Sequence[bytes]) -> Headers:
    if not lines:
        return ()
    texts = b"\r\n".join(lines).decode("latin-1").split("\r\n")
    return tuple([(name, value.strip(" \t")) for name, _, value in map(_PARTS_OF_HEADER, texts)])


class Unreadable(ValueError):
    """A body with an unknown Content-Encoding, or that does not match its Content-Encoding."""


class Decoder:
    """Decodes the Content-Encoding of a body as it comes. Raises ``Unreadable``.

    ``limit``: maximum size in bytes of the result of one ``feed``.
    """

    def __init__(self, encoding: str, limit: int) -> None:
        if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise Unreadable(encoding)
        self._plain = encoding in ("", "identity")
        self._raw_may_follow = encoding == "deflate"  # many servers send it without the zlib header
        self._inner = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._limit = limit

    @property
    def whole(self) -> bool:
        """Whether the end of the compressed data has come."""
        return self._plain or self._inner.eof

    def feed(self, data: bytes) -> bytes:
        if self._plain or not data:
            return data
        try:
            return self._inflate(data)
        except zlib.error:
            if not self._raw_may_follow:
                raise Unreadable("it does not match its Content-Encoding") from None
        self._raw_may_follow = False
        self._inner = zlib.decompressobj(-zlib.MAX_WBITS)
        return self.feed(data)

    def _inflate(self, data: bytes) -> bytes:
        plain = self._inner.decompress(data, self._limit)
        self._raw_may_follow = False
        while self._inner.eof and self._inner.unused_data:  # another member of a gzip file
            rest, self._inner = self._inner.unused_data, zlib.decompressobj(zlib.MAX_WBITS | 32)
            plain += self._inner.decompress(rest, self._limit)
        if self._inner.unconsumed_tail or len(plain) > self._limit:
            raise Unreadable("it grows too large")
        return plain


def decoded(body: bytes, encoding: str, limit: int) -> bytes:
    """Decode the Content-Encoding of a whole body. Raises ``Unreadable``."""
    decoder = Decoder(encoding, limit)
    plain = decoder.feed(body)
    if body and not decoder.whole:
        raise Unreadable("cut short")
    return plain


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_WITHOUT_BODY = (204, 304)


def refusal(status: int, code: str, message: str) -> Reply:
    """Return the gateway's own error reply, in the shape of all errors of the lab."""
    return typed_error(TOOL, status, code, message)


def is_bodiless(status: int) -> bool:
    """Return whether a reply with that status has no body."""
    return status < 200 or status in _WITHOUT_BODY


def render(reply: Reply, *, keep_alive: bool, head_only: bool) -> bytes:
    """Return the bytes of a whole reply. ``head_only``: it answers a HEAD."""
    bodiless = is_bodiless(reply.status)
    head = header_block(reply, len(reply.body), keep_alive=keep_alive)
    return head if head_only or bodiless else head + reply.body


def steps_of(reply: Reply | ReplyInPieces, *, keep_alive: bool, head_only: bool) -> list[Step]:
    """Return the bytes and waits of a fault's reply, in turn."""
    if isinstance(reply, Reply):
        return [render(reply, keep_alive=keep_alive, head_only=head_only)]
    if reply.head is None:
        return list(reply.pieces)
    start: list[Step] = [reply.wait] if reply.wait else []
    start.append(head_bytes(reply.head, reply.length))
    if reply.length is not None:
        return [*start, *reply.pieces]
    return [*start, *chunks(reply.pieces), *((chunk(b""),) if reply.ending == "keep" else ())]


def chunks(steps: Sequence[Step]) -> list[Step]:
    """Return the steps with their bytes as chunks of a body."""
    return [chunk(step) if isinstance(step, bytes) else step for step in steps if step]


def header_block(reply: Reply, length: int | None, *, keep_alive: bool) -> bytes:
    """Return its header block with that Content-Length, or chunked without one."""
    lines = head_bytes(reply, length)[:-4].split(b"\r\n")
    if is_bodiless(reply.status):
        lines.pop()  # such a reply has no framing
    if not keep_alive:
        lines.append(b"Connection: close")
    return b"\r\n".join((*lines, b"", b""))
