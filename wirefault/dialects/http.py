"""HTTP requests, replies and server-sent events as faults see them: complete, without framing. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, ClassVar, Literal

from wirefault.dialects.json_values import as_object, parsed
from wirefault.dialects.stream_forms import (
    SERVER_SENT_EVENTS,
    StreamForm,
    form_of_event,
    form_of_type,
    split_stream,
)

Headers = tuple[tuple[str, str], ...]
JSON_TYPE: Headers = (("Content-Type", "application/json"),)
# Headers that frame a message are set by its sender, never by a fault.
FRAMING = frozenset(("content-length", "transfer-encoding", "connection", "trailer"))

Step = bytes | float
Ending = Literal["keep", "close", "reset", "hang"]


@dataclass(frozen=True)
class _Message:
    headers: Headers = ()
    body: bytes = b""

    def header(self, name: str) -> str:
        """The header's value, several of them joined by a comma; empty without one."""
        return self.find_header(name) or ""

    def find_header(self, name: str) -> str | None:
        """The same, but None without one: its value may be empty."""
        values = [value for key, value in self.headers if key.lower() == name.lower()]
        return ", ".join(values) if values else None

    def json(self) -> Any:
        """The body's JSON. Raises ``ValueError``, also if it is nested too deep."""
        return parsed(self.body)

    def json_object(self) -> dict[str, Any]:
        """The body's JSON object; an empty one if the body holds none."""
        try:
            return as_object(self.json())
        except ValueError:
            return {}


@dataclass(frozen=True)
class Request(_Message):
    """A whole request. ``target``: path and query, as on the request line."""

    method: str = "GET"
    target: str = "/"

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    def with_json(self, value: Any) -> Request:
        """The same request with that JSON as its body."""
        return replace(self, body=dump_json(value))


SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS", "QUERY"))
"""Requests that only read: RFC 9110, 9.2.1, and draft-ietf-httpbis-safe-method-w-body."""


@dataclass(frozen=True)
class Reply(_Message):
    """A whole reply. ``reason`` empty: the status's usual phrase."""

    ending: ClassVar[Ending] = "keep"
    status: int = 200
    reason: str = ""

    @property
    def is_event_stream(self) -> bool:
        """Whether it is a stream of server-sent events."""
        return self.stream_form is SERVER_SENT_EVENTS

    @property
    def stream_form(self) -> StreamForm | None:
        """The form of a reply that comes in events; None for any other."""
        return form_of_type(self.header("content-type"))

    def events(self) -> Iterator[bytes]:
        """The events of a stream, and the rest after the last; nothing for another reply."""
        form = self.stream_form
        return iter(()) if form is None else split_stream(form, self.body)

    def with_body(self, body: bytes) -> Reply:
        return replace(self, body=body)

    def with_json(self, value: Any) -> Reply:
        return replace(self, body=dump_json(value))


def dump_json(value: Any) -> bytes:
    """JSON in UTF-8; lone surrogates, which UTF-8 lacks, stay escaped."""
    try:
        return json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(value).encode()


def json_reply(status: int, value: Any, headers: Mapping[str, str] | None = None) -> Reply:
    """A reply of JSON."""
    return Reply((*JSON_TYPE, *(headers or {}).items()), dump_json(value), status)


@dataclass(frozen=True)
class ReplyInPieces:
    """A reply that comes in pieces, perhaps not all of it, and how it ends."""

    head: Reply | None = None
    """Its status and headers. None: the client gets none, and the pieces as they are."""
    pieces: tuple[Step, ...] = ()
    """Pieces of the body, or events, and seconds to wait."""
    ending: Ending = "close"
    """``keep`` (the reply is whole, the connection stays open), ``close`` (gracefully: FIN), ``reset`` (RST),
    ``hang`` (nothing more, until the client leaves)."""
    length: int | None = None
    """Length of the body that the header block claims. None: the pieces are of an event stream."""
    wait: float = 0.0
    """Seconds to wait before the header block."""


_PIECE_S = 0.05
_MAX_PIECES = 1000


def slow_pieces(body: bytes, bytes_per_second: float) -> tuple[Step, ...]:
    """The body in pieces, with the seconds that each takes before it."""
    per_piece = max(1, math.ceil(bytes_per_second * _PIECE_S), math.ceil(len(body) / _MAX_PIECES))
    cuts = (body[start : start + per_piece] for start in range(0, len(body), per_piece))
    return tuple(step for piece in cuts for step in (len(piece) / bytes_per_second, piece))


def head_bytes(reply: Reply, length: int | None) -> bytes:
    """The status line and header block. ``length``: the Content-Length that it claims, None for none.

    Without a length the body is chunked; see ``chunk``.
    """
    lines = [f"HTTP/1.1 {reply.status} {reply.reason or reason_phrase(reply.status)}"]
    lines += [f"{name}: {value}" for name, value in reply.headers if name.lower() not in FRAMING]
    lines.append("Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace")


def chunk(data: bytes) -> bytes:
    """The data as one chunk of a chunked body; empty data makes the last chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)


_PHRASES = {status.value: status.phrase for status in HTTPStatus}


def reason_phrase(status: int) -> str:
    """The status's usual phrase."""
    return _PHRASES.get(status, "Unknown")


_LINE = re.compile(rb"\r\n|\n|\r")


def split_events(body: bytes) -> Iterator[bytes]:
    """The server-sent events of a stream, their blank lines included, and the rest after the last."""
    return split_stream(SERVER_SENT_EVENTS, body)


def data_of(event: bytes) -> bytes:
    """The content of an event of any form; empty for an event without any, such as a comment."""
    return form_of_event(event).data_of(event)


def value_of(event: bytes) -> Any:
    """The JSON of its data; None for other data (``[DONE]``)."""
    try:
        return parsed(data_of(event))
    except ValueError:
        return None


def with_data(event: bytes, data: bytes) -> bytes:
    """The same event with that data; a server-sent one has it in one line."""
    return form_of_event(event).with_data(event, data)


def with_lines(event: bytes, data: bytes) -> bytes:
    """The same event with that data, which may hold line ends, in as many lines as it has."""
    return with_data(event, b"\ndata: ".join(_LINE.split(data)))


def write_event(value: Any, name: str = "") -> bytes:
    """An event of JSON, with an event name where the API gives one."""
    head = b"event: " + name.encode() + b"\n" if name else b""
    return head + b"data: " + dump_json(value) + b"\n\n"
