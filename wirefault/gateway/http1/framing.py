"""Finds where a body and a reply end, by counting: the bytes pass unchanged. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto

from wirefault.dialects.http import Headers, Reply
from wirefault.gateway.http1.heads import MAX_HEAD, BadHead, ReplyHead, read_reply
from wirefault.gateway.http1.messages import content_encoding, headers_of, reply_of

_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;[^\r\n]*)?$")
_MAX_LINE = 16 * 1024
_MAX_TRAILERS = 64 * 1024

Sink = Callable[[bytes], None]


class BadBody(ValueError):
    """A chunked body with unreadable framing."""


class SizedBody:
    """A body of that many bytes. ``sink`` gets them."""

    __slots__ = ("_remaining", "_sink", "done")

    def __init__(self, length: int, sink: Sink | None = None) -> None:
        self._remaining = length
        self._sink = sink
        self.done = length == 0

    def feed(self, data: bytes) -> int:
        """Return how many of these bytes belong to the body."""
        used = len(data)
        if used >= self._remaining:
            used = self._remaining
            self.done = True
        self._remaining -= used
        if self._sink is not None:
            self._sink(data[:used])
        return used


NO_BODY = SizedBody(0)  # it has no state, and so all messages share it


class EndlessBody:
    """A body that lasts until its sender closes the connection. ``sink`` gets its bytes."""

    __slots__ = ("_sink", "done")

    def __init__(self, sink: Sink | None = None) -> None:
        self.done = False
        self._sink = sink

    def feed(self, data: bytes) -> int:
        if self._sink is not None:
            self._sink(data)
        return len(data)


class TunnelBytes(EndlessBody):
    """The body after a change of protocol: bytes that are not of HTTP, so a reader passes them by."""

    __slots__ = ()

    def feed(self, data: bytes) -> int:
        return 0


class _Part(Enum):
    SIZE = auto()
    DATA = auto()
    AFTER_DATA = auto()
    TRAILERS = auto()


class ChunkedBody:
    """A chunked body with its extensions and trailers. ``sink`` gets the bytes in the chunks."""

    __slots__ = ("_left", "_line", "_part", "_sink", "_trailers", "done")

    def __init__(self, sink: Sink | None = None) -> None:
        self.done = False
        self._part = _Part.SIZE
        self._left = 0
        self._line = b""
        self._trailers = 0
        self._sink = sink

    def feed(self, data: bytes) -> int:
        """Return how many of these bytes belong to the body. Raises ``BadBody``."""
        at, end = 0, len(data)
        while at < end and not self.done:
            at = self._take_data(data, at) if self._part is _Part.DATA else self._take_line(data, at)
        return at

    def _take_data(self, data: bytes, at: int) -> int:
        stop = min(at + self._left, len(data))
        if self._sink is not None:
            self._sink(data[at:stop])
        self._left -= stop - at
        if self._left == 0:
            self._part = _Part.AFTER_DATA
        return stop

    def _take_line(self, data: bytes, at: int) -> int:
        newline = data.find(b"\n", at)
        stop = len(data) if newline < 0 else newline + 1
        self._line += data[at:stop]
        if len(self._line) > _MAX_LINE:
            raise BadBody("a line of the chunked body is too long")
        if self._part is _Part.AFTER_DATA and not b"\r\n".startswith(self._line):
            raise BadBody("a chunk is longer than its size")
        if newline >= 0:
            line, self._line = self._line, b""
            self._on_line(line)
        return stop

    def _on_line(self, line: bytes) -> None:
        if not line.endswith(b"\r\n"):
            raise BadBody("a line of the chunked body does not end with CR LF")
        text = line[:-2]
        if self._part is _Part.SIZE:
            size = _CHUNK_SIZE.match(text)
            if size is None:
                raise BadBody("not the size of a chunk")
            self._left = int(size[1], 16)
            self._part = _Part.DATA if self._left else _Part.TRAILERS
        elif self._part is _Part.AFTER_DATA:
            self._part = _Part.SIZE
        elif text:
            self._trailers += len(line)
            if self._trailers > _MAX_TRAILERS:
                raise BadBody("the trailers are too long")
        else:
            self.done = True


Body = SizedBody | ChunkedBody | EndlessBody


def broken_off(reason: str | None, *, begun: bool) -> str:
    """Return the error of a reply that its upstream cut off. ``begun``: the client has a part of it."""
    where = "in the middle of" if begun else "before"
    return f"the upstream closed {where} its reply" + (f": {reason}" if reason else "")


class ReplyReader:
    """Follows the reply to one request, interim replies included. ``sink`` gets the final reply's body.

    An unreadable reply passes unchanged, until the upstream closes.
    """

    block: bytes
    """Header block of the final reply."""
    interim: int
    """Bytes of interim replies in the result of the last ``feed``."""
    head: ReplyHead | None
    keep_alive: bool
    """The final reply's; False without one."""
    done: bool
    tunnel: bool
    """The connection has changed its protocol."""
    error: str | None
    """Why the reply is unreadable."""
    _start: bytes
    _body: Body | None
    _method: str
    _upgrade: bool
    _swallow: bool
    _sink: Sink | None
    __slots__ = tuple(__annotations__)

    def __init__(self, method: str, upgrade: bool, swallow_continue: bool, sink: Sink | None = None) -> None:
        self._method = method
        self._upgrade = upgrade
        self._swallow = swallow_continue
        self._sink = sink
        self.block = self._start = b""
        self.interim = 0
        self.keep_alive = self.done = self.tunnel = False
        self.head = self.error = self._body = None

    @property
    def begun(self) -> bool:
        """Whether bytes of the final reply have passed."""
        return self._body is not None

    @property
    def message(self) -> Reply:
        """The final reply as faults see it, without its body; its head must be here."""
        return reply_of(self.block)

    @property
    def headers(self) -> Headers:
        """All headers of the final reply, its framing included."""
        return headers_of(self.block)

    @property
    def encoding(self) -> str:
        """Its Content-Encoding."""
        return content_encoding(self.block)

    @property
    def ends_by_close(self) -> bool:
        """Whether the upstream's close is the proper end of the reply."""
        return isinstance(self._body, EndlessBody) and self.error is None

    @property
    def continued(self) -> bool:
        """Whether the client has its 100 Continue, from the upstream or the gateway."""
        return self._swallow

    def take_rest(self) -> bytes:
        """Take out the start of a header block that the upstream never finished."""
        rest, self._start = self._start, b""
        return rest

    def broken_off(self, reason: str | None, *, begun: bool) -> str:
        """Return the error of a reply that its upstream cut off. ``begun``: the client has a part of it."""
        return self.error or broken_off(reason, begun=begun)

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the bytes to pass on, and the bytes after the reply's end: those of a tunnel, too."""
        if self._body is not None:
            self.interim = 0
            used = self._take(self._body, data)
            return (data, b"") if used == len(data) else (data[:used], data[used:])
        if self._start:
            data, self._start = self._start + data, b""
        passed = b""
        while self._body is None:
            end = data.find(b"\r\n\r\n") + 4
            if end < 4:
                return self._wait(passed, data)
            interim = self._on_head(data[:end])
            if interim is not None:
                passed, data = passed + interim, data[end:]
        self.interim = len(passed)
        used = self.head.size if self.head is not None else 0
        size = len(data)
        if used < size:
            used += self._take(self._body, data[used:])
        if used == size and not passed:
            return data, b""
        return passed + data[:used], data[used:]

    def _wait(self, passed: bytes, data: bytes) -> tuple[bytes, bytes]:
        self.interim = len(passed)
        if len(data) <= MAX_HEAD:
            self._start = data
            return passed, b""
        self._give_up("the upstream's header block is too long")
        return passed + data, b""

    def _on_head(self, block: bytes) -> bytes | None:
        """Return the bytes of an interim reply to pass on; None once the final one has begun."""
        try:
            head = read_reply(block)
        except BadHead as error:
            self._give_up(str(error))
            return None
        if head.status < 200 and not (head.status == 101 and self._upgrade):
            if head.status == 100 and self._swallow:
                return b""
            self._swallow = self._swallow or head.status == 100
            return block
        self.head, self.block, self.keep_alive = head, block, head.keep_alive
        body = self._body = self._framing(head)
        self.done = body.done
        return None

    def _framing(self, head: ReplyHead) -> Body:
        if head.status == 101 or (self._method == "CONNECT" and 200 <= head.status < 300):
            self.tunnel = True
            return TunnelBytes()
        if head.bodiless or self._method == "HEAD":
            return NO_BODY
        if head.chunked:
            return ChunkedBody(self._sink)
        return EndlessBody(self._sink) if head.length is None else SizedBody(head.length, self._sink)

    def _take(self, body: Body, data: bytes) -> int:
        try:
            used = body.feed(data)
        except BadBody as error:
            self._give_up(str(error))
            return len(data)
        self.done = body.done
        return used

    def _give_up(self, reason: str) -> None:
        self.error = f"bad reply: {reason}"
        self._body = EndlessBody()
