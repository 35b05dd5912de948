"""The forms of event streams: how their bytes are cut into events, and where an event's data is. Pure.

Server-sent events end with a blank line. Ollama sends newline-delimited JSON: each line is an event. The
first byte of an event shows its form: a line of JSON begins with a brace, a field of the other form does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from wirefault.dialects.json_values import parsed

_BLANK = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2,}")
# the same for a stream that may not be here to its end, so that a CR may be half of a line's end
_BLANK_SO_FAR = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LINE = re.compile(rb"\r\n|\n|\r")


class StreamForm(Protocol):
    """One form of streams."""

    content_type: str

    def ends(self, data: bytes, searched: int) -> Iterator[int]:
        """The offsets at which the whole events in ``data`` end. No event ends in the first ``searched``
        bytes.
        """

    def data_of(self, event: bytes) -> bytes:
        """The content of an event; empty for an event without any, such as a comment."""

    def with_data(self, event: bytes, data: bytes) -> bytes:
        """The same event with that data."""


class _ServerSentEvents:
    content_type = "text/event-stream"

    def ends(self, data: bytes, searched: int) -> Iterator[int]:
        start = max(searched - 3, 0)  # a blank line cannot begin earlier
        return (blank.end() for blank in _BLANK_SO_FAR.finditer(data, start))

    def data_of(self, event: bytes) -> bytes:
        lines = [line for line in _LINE.split(event) if line.startswith(b"data:")]
        return b"\n".join(line[5:].removeprefix(b" ") for line in lines)

    def with_data(self, event: bytes, data: bytes) -> bytes:
        others = [line for line in _LINE.split(event) if line and not line.startswith(b"data:")]
        return b"\n".join([*others, b"data: " + data, b"", b""])


class _JsonLines:
    content_type = "application/x-ndjson"

    def ends(self, data: bytes, searched: int) -> Iterator[int]:
        end = data.find(b"\n", searched)
        while end >= 0:
            yield end + 1
            end = data.find(b"\n", end + 1)

    def data_of(self, event: bytes) -> bytes:
        return event.strip()

    def with_data(self, event: bytes, data: bytes) -> bytes:
        return data + b"\n"


SERVER_SENT_EVENTS: StreamForm = _ServerSentEvents()
JSON_LINES: StreamForm = _JsonLines()
_FORMS = (SERVER_SENT_EVENTS, JSON_LINES)


def form_of_type(content_type: str) -> StreamForm | None:
    """The form of a stream with that Content-Type; None if it names no stream."""
    kind = content_type.lower()
    return next((form for form in _FORMS if kind.startswith(form.content_type)), None)


def form_of_event(event: bytes) -> StreamForm:
    """The form of an event."""
    return JSON_LINES if event[:1] == b"{" else SERVER_SENT_EVENTS


def recorded_events(body: str) -> list[bytes]:
    """The events of a recorded reply, whose first bytes show its form; empty if it is no stream."""
    if body.lstrip()[:6].startswith(("data:", "event:", ":")):
        return list(split_stream(SERVER_SENT_EVENTS, body.encode()))
    lines = list(split_stream(JSON_LINES, body.encode()))
    try:
        first = parsed(lines[0]) if lines and lines[0][:1] == b"{" else None
    except ValueError:  # JSON on several lines
        return []
    is_stream = isinstance(first, dict) and (len(lines) > 1 or first.get("done") is False)
    return lines if is_stream else []


def split_stream(form: StreamForm, body: bytes) -> Iterator[bytes]:
    """The events of a whole stream, and what is left after the last."""
    start = 0
    ends = (
        (blank.end() for blank in _BLANK.finditer(body)) if form is SERVER_SENT_EVENTS else form.ends(body, 0)
    )
    for end in ends:
        yield body[start:end]
        start = end
    if start < len(body):
        yield body[start:]
