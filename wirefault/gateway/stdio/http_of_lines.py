"""HTTP around a line of JSON-RPC, and off it again. Pure.

A client's message becomes the POST, and the server's response the reply, that carry the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from wirefault.dialects.http import chunk, data_of, head_bytes
from wirefault.dialects.mcp import EVENT_STREAM_HEAD, event_of_line, line_of
from wirefault.gateway.connection.framed_lines import RAW_LINES
from wirefault.gateway.connection.reply_treatments import EventSplitter
from wirefault.gateway.http1.reply_reader import ReplyReader

ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
EVENTS = head_bytes(EVENT_STREAM_HEAD, None)
EVENTS_END = chunk(b"")
_MANY_LINES = b"text/event-stream"
_RAW_LINES = RAW_LINES.encode()


def post_of(body: bytes, link: str) -> bytes:
    """The request that has this line, without its end, as its body."""
    head = f"POST / HTTP/1.1\r\nHost: {link}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def reply_around(body: bytes) -> bytes:
    """The reply that has this line, without its end, as its body."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        len(body),
        body,
    )


def request_for_pushed(link: str) -> bytes:
    """The request whose reply is all that the server sends of its own accord."""
    return f"GET / HTTP/1.1\r\nHost: {link}\r\nAccept: text/event-stream\r\n\r\n".encode()


def event_around(line: bytes) -> bytes:
    """A part of a reply that has begun with ``EVENTS``: one line as an event."""
    return chunk(event_of_line(line))


def without_end(line: bytes) -> tuple[bytes, bytes]:
    """The line, and its end: a line feed, perhaps with a carriage return, or nothing."""
    body = line.rstrip(b"\r\n")
    return body, line[len(body) :]


class RepliedLines:
    """Takes what an HTTP client would be sent, and gives ``write`` what goes onto its line.

    What a reply's body carries goes on as it is, with ``line_end`` at its end (unless it is the bytes of a
    fault of lines); the events of a stream become a line each. A status has no counterpart, and of a reply
    without a body nothing is written. ``replies`` counts those that were whole, ``partial`` tells whether one
    has begun that is not.
    """

    def __init__(self, write: Callable[[bytes], None]) -> None:
        self.line_end = b"\n"
        self.replies = 0
        self._write = write
        self._events = EventSplitter()
        self._begin()

    def _begin(self) -> None:
        self._carried = bytearray()
        self._reader = ReplyReader("POST", False, True, self._carried.extend)
        self._written = 0
        self.partial = False

    def feed(self, data: bytes) -> None:
        """More of what the client would be sent, a header block always in one piece."""
        while data:
            self.partial = True
            _, data = self._reader.feed(data)
            self._pass_on()
            if self._reader.done:
                self.replies += 1
                self._begin()

    def _pass_on(self) -> None:
        carried, done = bytes(self._carried), self._reader.done
        self._carried.clear()
        block = self._reader.block.lower()
        if _RAW_LINES in block:
            self._write(carried)
        elif _MANY_LINES in block:
            for event in self._events.feed(carried):
                self._write_event(event)
            if done:
                self._write_event(self._events.rest)
        elif done and not self._written:
            if carried:
                self._write(carried + self.line_end if b"\n" not in carried else line_of(carried))
        else:
            self._written += len(carried)
            self._write(carried + self.line_end if done else carried)

    def _write_event(self, event: bytes) -> None:
        data = data_of(event)
        if data:
            self._write(line_of(data))
