"""From bytes on the wire to the messages that faults see, and back. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

from wirefault.dialects.base import typed_error
from wirefault.dialects.http import Headers, Reply, Request, head_bytes, reason_phrase
from wirefault.dialects.tool import TOOL
from wirefault.gateway.http1.heads import RequestHead, read_request

_REQUEST_FRAMING = frozenset(("content-length", "transfer-encoding", "expect", "trailer"))
_REPLY_FRAMING = frozenset(
    ("content-length", "transfer-encoding", "connection", "trailer", "content-encoding")
)
_WITH_BODY = frozenset(("POST", "PUT", "PATCH"))


def request_of(head: RequestHead, body: bytes) -> Request:
    """The request as faults see it; ``body`` is what its body carries."""
    return Request(_headers(head.lines[1:]), body, head.method, head.target)


def reframed(request: Request, original: RequestHead) -> tuple[RequestHead, bytes]:
    """A changed request as it is sent: its head, read again, and its body. Raises ``ValueError``."""
    version = original.lines[0].rpartition(b" ")[2].decode()
    lines = [f"{request.method} {request.target} {version}"]
    lines += [f"{name}: {value}" for name, value in request.headers if name.lower() not in _REQUEST_FRAMING]
    if request.body or original.length or original.chunked or request.method in _WITH_BODY:
        lines.append(f"Content-Length: {len(request.body)}")
    if any(character in line for line in lines for character in "\r\n\0"):
        raise ValueError("a line of the changed request holds a line's end")
    return read_request("\r\n".join([*lines, "", ""]).encode("latin-1")), request.body


def ask_for_identity(head: RequestHead) -> str:
    """Asks the upstream for a reply that is not compressed; what the client had accepted for."""
    accepted = []
    for at, line in enumerate(head.lines):
        name, _, value = line.partition(b":")
        if at and name.lower() == b"accept-encoding":
            accepted.append(value.strip().decode("latin-1"))
            head.lines[at] = name + b": identity"
    return ", ".join(accepted)


def reply_of(block: bytes, body: bytes = b"") -> Reply:
    """The reply as faults see it: header block and decoded body, without framing and Content-Encoding."""
    first, *lines = block[:-4].split(b"\r\n")
    headers = tuple((name, value) for name, value in _headers(lines) if name.lower() not in _REPLY_FRAMING)
    status, _, reason = first.partition(b" ")[2].decode("latin-1").partition(" ")
    return Reply(headers, body, int(status), "" if reason == reason_phrase(int(status)) else reason)


def content_encoding(block: bytes) -> str:
    headers = _headers(block[:-4].split(b"\r\n")[1:])
    values = [value for name, value in headers if name.lower() == "content-encoding"]
    return ", ".join(values).lower()


def _headers(lines: Sequence[bytes]) -> Headers:
    if not lines:
        return ()
    texts = b"\r\n".join(lines).decode("latin-1").split("\r\n")
    parts = [text.partition(":") for text in texts]
    return tuple([(name, value.strip(" \t")) for name, _, value in parts])


class Unreadable(ValueError):
    """A body in an encoding that the gateway does not read, or not really in it."""


class Decoder:
    """Takes the Content-Encoding off a body as it comes. Raises ``Unreadable``.

    ``limit``: bytes that one ``feed`` may grow to.
    """

    def __init__(self, encoding: str, limit: int) -> None:
        if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
            raise Unreadable(encoding)
        self._plain = encoding in ("", "identity")
        self._raw_may_follow = encoding == "deflate"  # which many servers send without the zlib header
        self._inner = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._limit = limit

    @property
    def whole(self) -> bool:
        """Whether the end of what was compressed has come."""
        return self._plain or self._inner.eof

    def feed(self, data: bytes) -> bytes:
        if self._plain or not data:
            return data
        try:
            return self._inflate(data)
        except zlib.error:
            if not self._raw_may_follow:
                raise Unreadable("not what its Content-Encoding says") from None
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
    """A whole body without its Content-Encoding. Raises ``Unreadable``."""
    decoder = Decoder(encoding, limit)
    plain = decoder.feed(body)
    if body and not decoder.whole:
        raise Unreadable("cut short")
    return plain


CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_WITHOUT_BODY = (204, 304)


def refusal(status: int, code: str, message: str) -> Reply:
    """The gateway's own error, in the lab's one shape."""
    return typed_error(TOOL, status, code, message)


def render(reply: Reply, *, keep_alive: bool, head_only: bool) -> bytes:
    """The whole reply in one piece, to be written in one go. ``head_only`` for the answer to a HEAD."""
    bodiless = reply.status < 200 or reply.status in _WITHOUT_BODY
    head = header_block(reply, len(reply.body), keep_alive=keep_alive)
    return head if head_only or bodiless else head + reply.body


def header_block(reply: Reply, length: int | None, *, keep_alive: bool) -> bytes:
    """Its header block with that Content-Length, or chunked without one."""
    lines = head_bytes(reply, length)[:-4].split(b"\r\n")
    if reply.status < 200 or reply.status in _WITHOUT_BODY:
        lines.pop()  # its framing: such a reply has none
    if not keep_alive:
        lines.append(b"Connection: close")
    return b"\r\n".join((*lines, b"", b""))
