"""A byte stream as lines, and lines of many senders as one byte stream. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

MAX_LINE = 16 << 20


class Line(NamedTuple):
    """Bytes of a stream; ``whole``: one line from its beginning to its end, which is included."""

    data: bytes
    whole: bool


class LineSplitter:
    """Splits a stream into lines. One longer than 16 MiB is given out in pieces, none of which is whole."""

    def __init__(self, longest: int = MAX_LINE) -> None:
        self._longest = longest
        self._rest = bytearray()
        self._in_pieces = False

    def feed(self, data: bytes) -> list[Line]:
        """The lines that these bytes complete."""
        lines: list[Line] = []
        start = 0
        while end := data.find(b"\n", start) + 1:
            lines.append(Line(bytes(self._rest) + data[start:end], not self._in_pieces))
            self._rest.clear()
            self._in_pieces = False
            start = end
        self._rest += data[start:]
        if len(self._rest) > self._longest or (self._in_pieces and self._rest):
            self._in_pieces = True
            lines.append(Line(bytes(self._rest), False))
            self._rest.clear()
        return lines

    def end(self) -> bytes:
        """The last line of a stream that has ended in the middle of it; empty if it has not."""
        rest = bytes(self._rest)
        self._rest.clear()
        return rest


class LineSequence:
    """Writes lines of several senders one after the other: none begins in the middle of another's line."""

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self._write = write
        self._sender: object = None  # of the line under way
        self._waiting: deque[tuple[object, bytes]] = deque()

    def write(self, sender: object, data: bytes) -> None:
        """Sends these bytes, or keeps them until the line that another sender has begun is over."""
        if self._sender is None or self._sender is sender:
            self._send(sender, data)
            self._send_waiting()
        else:
            self._waiting.append((sender, data))

    def release(self, sender: object) -> None:
        """That sender sends no more: what is next follows on its line, if that has no end."""
        if self._sender is sender:
            self._sender = None
            self._send_waiting()

    def _send(self, sender: object, data: bytes) -> None:
        if data:
            self._write(data)
            self._sender = None if data.endswith(b"\n") else sender

    def _send_waiting(self) -> None:
        while self._waiting and (self._sender is None or self._sender is self._waiting[0][0]):
            self._send(*self._waiting.popleft())
