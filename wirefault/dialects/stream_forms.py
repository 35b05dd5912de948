"""The forms of event streams: how their bytes are cut into events, and where an event's data is. Pure.

Server-sent events end with a blank line. Ollama sends newline-delimited JSON: each line is an event. Bedrock
sends AWS's event stream: binary frames with their length, headers and checksums. The first byte of an event
shows its form: a line of JSON begins with a brace, a frame with a zero (it is shorter than 16 MiB).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol
from zlib import crc32

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


# https://smithy.io/2.0/aws/amazon-eventstream.html: total length, length of the headers, checksum of both;
# headers; payload; checksum of all before it. Integers are big-endian, checksums are CRC-32.
_PRELUDE = struct.Struct(">II")
_CHECKSUM = struct.Struct(">I")
_FRAMING = _PRELUDE.size + 2 * _CHECKSUM.size
_STRING = 7
_STRING_LENGTH = struct.Struct(">H")
# sizes of the values of header types: true, false, byte, short, integer, long, timestamp, uuid
_VALUE_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}


@dataclass(frozen=True)
class Frame:
    """One message of AWS's event stream; of its headers those that are texts."""

    headers: Mapping[str, str]
    payload: bytes

    def encoded(self) -> bytes:
        """The frame's bytes."""
        headers = b"".join(_encoded_header(*header) for header in self.headers.items())
        prelude = _PRELUDE.pack(_FRAMING + len(headers) + len(self.payload), len(headers))
        head = prelude + _CHECKSUM.pack(crc32(prelude))
        return head + headers + self.payload + _CHECKSUM.pack(crc32(head + headers + self.payload))


def read_frame(event: bytes) -> Frame | None:
    """The frame; None for bytes that are not exactly one, or do not match their checksums."""
    if not event or _frame_length(event) != len(event):
        return None
    body, checksum = event[:-4], _CHECKSUM.unpack(event[-4:])[0]
    start, end = _PRELUDE.size + 4, _PRELUDE.size + 4 + _PRELUDE.unpack_from(event)[1]
    if crc32(body) != checksum or end > len(body):
        return None
    try:
        return Frame(dict(_headers(body[start:end])), body[end:])
    except (ValueError, struct.error, IndexError):
        return None


def _frame_length(data: bytes) -> int:
    """The length of the frame that begins there; 0 if too little of it is here, -1 if it is none."""
    if len(data) < _PRELUDE.size + 4:
        return 0
    length, headers = _PRELUDE.unpack_from(data)
    checksum = _CHECKSUM.unpack_from(data, _PRELUDE.size)[0]
    plausible = _FRAMING + headers <= length < 1 << 24
    return int(length) if plausible and crc32(data[: _PRELUDE.size]) == checksum else -1


def _encoded_header(name: str, value: str) -> bytes:
    raw_name, raw_value = name.encode(), value.encode()
    return (
        bytes([len(raw_name)]) + raw_name + bytes([_STRING]) + _STRING_LENGTH.pack(len(raw_value)) + raw_value
    )


def _headers(data: bytes) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(data):
        name_end = at + 1 + data[at]
        name, kind = data[at + 1 : name_end].decode(), data[name_end]
        at = name_end + 1
        if kind in _VALUE_SIZES:
            at += _VALUE_SIZES[kind]
            continue
        size = _STRING_LENGTH.unpack_from(data, at)[0]
        at += 2 + size
        if kind == _STRING:
            yield name, data[at - size : at].decode()


class _AwsEventStream:
    content_type = "application/vnd.amazon.eventstream"

    def ends(self, data: bytes, searched: int) -> Iterator[int]:
        """Frames are cut by their lengths, so the search begins at the first one again.

        Bytes that are not a frame extend to the end of the data.
        """
        at = 0
        while at < len(data):
            length = _frame_length(data[at : at + _PRELUDE.size + 4])
            at = at + length if length > 0 else len(data)
            if length == 0 or at > len(data):
                return
            yield at

    def data_of(self, event: bytes) -> bytes:
        frame = read_frame(event)
        return frame.payload if frame is not None else b""

    def with_data(self, event: bytes, data: bytes) -> bytes:
        """Its checksums are right again: the damage is the server's, not the network's."""
        frame = read_frame(event)
        return event if frame is None else Frame(frame.headers, data).encoded()


SERVER_SENT_EVENTS: StreamForm = _ServerSentEvents()
JSON_LINES: StreamForm = _JsonLines()
AWS_EVENT_STREAM: StreamForm = _AwsEventStream()
_FORMS = (SERVER_SENT_EVENTS, JSON_LINES, AWS_EVENT_STREAM)
_BY_FIRST_BYTE = {b"{": JSON_LINES, b"\0": AWS_EVENT_STREAM}


def form_of_type(content_type: str) -> StreamForm | None:
    """The form of a stream with that Content-Type; None if it names no stream."""
    kind = content_type.lower()
    return next((form for form in _FORMS if kind.startswith(form.content_type)), None)


def form_of_event(event: bytes) -> StreamForm:
    """The form of an event."""
    return _BY_FIRST_BYTE.get(event[:1], SERVER_SENT_EVENTS)


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
    """The events of a whole stream, and the rest after the last."""
    start = 0
    ends = (
        (blank.end() for blank in _BLANK.finditer(body)) if form is SERVER_SENT_EVENTS else form.ends(body, 0)
    )
    for end in ends:
        yield body[start:end]
        start = end
    if start < len(body):
        yield body[start:]
