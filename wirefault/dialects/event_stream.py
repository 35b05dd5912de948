"""Server-sent events as bytes: split, read and written. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from wirefault.dialects.http import dump_json
from wirefault.dialects.json_values import parsed

_BLANK = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2,}")
_LINE = re.compile(rb"\r\n|\n|\r")


def split_events(body: bytes) -> Iterator[bytes]:
    """The whole events of a stream, their blank lines included, and what is left after the last."""
    start = 0
    for blank in _BLANK.finditer(body):
        yield body[start : blank.end()]
        start = blank.end()
    if start < len(body):
        yield body[start:]


def data_of(event: bytes) -> bytes:
    """What its data lines hold; empty for an event without any, such as a comment."""
    lines = [line for line in _LINE.split(event) if line.startswith(b"data:")]
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines)


def value_of(event: bytes) -> Any:
    """The JSON of its data; None if its data is no JSON (``[DONE]``)."""
    try:
        return parsed(data_of(event))
    except ValueError:
        return None


def with_data(event: bytes, data: bytes) -> bytes:
    """The same event with that data in one line."""
    others = [line for line in _LINE.split(event) if line and not line.startswith(b"data:")]
    return b"\n".join([*others, b"data: " + data, b"", b""])


def with_lines(event: bytes, data: bytes) -> bytes:
    """The same event with that data, which may hold line ends, in as many lines as it has."""
    return with_data(event, b"\ndata: ".join(_LINE.split(data)))


def write_event(value: Any, name: str = "") -> bytes:
    """An event of JSON, with an event name where the API gives one."""
    head = b"event: " + name.encode() + b"\n" if name else b""
    return head + b"data: " + dump_json(value) + b"\n\n"
