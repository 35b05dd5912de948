"""Where a body ends: found by counting, so that the bytes themselves pass through untouched. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto

_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})[ \t]*(?:;[^\r\n]*)?$")
_MAX_LINE = 16 * 1024
_MAX_TRAILERS = 64 * 1024

Sink = Callable[[bytes], None]


class BadBody(ValueError):
    """A chunked body whose framing cannot be read."""


class SizedBody:
    """A body of that many bytes. ``sink`` is given what the body carries."""

    __slots__ = ("_remaining", "_sink", "done")

    def __init__(self, length: int, sink: Sink | None = None) -> None:
        self._remaining = length
        self._sink = sink
        self.done = length == 0

    def feed(self, data: bytes) -> int:
        """How many of these bytes belong to the body."""
        used = len(data)
        if used >= self._remaining:
            used = self._remaining
            self.done = True
        self._remaining -= used
        if self._sink is not None:
            self._sink(data[:used])
        return used


NO_BODY = SizedBody(0)  # takes nothing, and so may be everybody's


class EndlessBody:
    """A body that lasts until its sender closes the connection. ``sink`` is given what it carries."""

    __slots__ = ("_sink", "done")

    def __init__(self, sink: Sink | None = None) -> None:
        self.done = False
        self._sink = sink

    def feed(self, data: bytes) -> int:
        if self._sink is not None:
            self._sink(data)
        return len(data)


class _Part(Enum):
    SIZE = auto()
    DATA = auto()
    AFTER_DATA = auto()
    TRAILERS = auto()


class ChunkedBody:
    """A chunked body with its extensions and trailers. ``sink`` is given what the chunks carry."""

    __slots__ = ("_left", "_line", "_part", "_sink", "_trailers", "done")

    def __init__(self, sink: Sink | None = None) -> None:
        self.done = False
        self._part = _Part.SIZE
        self._left = 0
        self._line = b""
        self._trailers = 0
        self._sink = sink

    def feed(self, data: bytes) -> int:
        """How many of these bytes belong to the body. Raises ``BadBody``."""
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
