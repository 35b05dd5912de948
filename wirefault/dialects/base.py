"""Contracts of dialects, and their errors as replies. Pure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, runtime_checkable

from wirefault.dialects import Dialect
from wirefault.dialects.http import Reply, Request, json_reply, write_event
from wirefault.dialects.json_values import as_object, as_text, parsed

TOOL_USE_FAILED = (
    "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details."
)
CONTENT_FILTERED = "The response was filtered because the prompt triggered the content management policy."


@dataclass(frozen=True)
class ErrorForm:
    """One error in one dialect. Without a ``type`` it is a proxy's HTML page.

    ``message`` is a format string; ``fields`` names the values that are fields of the error object too.
    """

    status: int
    message: str
    type: str | None = None
    code: str | None = None
    fields: tuple[str, ...] = ()


class NotInDialect(ValueError):
    """The API has no such error, or no reply like that."""


class LinkDialect(Protocol):
    """The API of any link: its ``errors`` by their names in the catalogue of faults.

    ``id_header`` is the reply header that carries a request's id; empty if there is none.
    """

    name: Dialect
    id_header: str
    errors: Mapping[str, ErrorForm]

    def error_body(
        self, type: str, message: str, *, code: str | None = None, id: str = "", **fields: Any
    ) -> dict[str, Any]:
        """Any error as JSON. ``fields`` are further ones of the error object; ``id`` is the request's."""


class NamesErrorsInHeader(ABC):
    """The base of a dialect whose errors have their type in a header."""

    @abstractmethod
    def error_headers(self, type: str, status: int) -> Mapping[str, str]:
        """The headers of such an error. ``type`` may be unknown to the API."""


def error_reply(
    dialect: LinkDialect, kind: str, *, id: str = "", retry_after: float | None = None, **values: Any
) -> Reply:
    """The error ``kind`` of the dialect. ``retry_after``: seconds; ``values``: for the form's message.

    Raises ``NotInDialect``.
    """
    form = dialect.errors.get(kind)
    if form is None:
        raise NotInDialect(f"no error {kind}")
    headers = {} if retry_after is None else {"Retry-After": seconds(retry_after)}
    if form.type is None:
        return html_reply(form.status, form.message, headers)
    message = form.message.format_map({"model": "the model", **values})
    fields = {name: values[name] for name in form.fields}
    body = dialect.error_body(form.type, message, code=form.code, id=id, **fields)
    return _with_names(dialect, form.status, form.type, body, id, headers)


def typed_error(dialect: LinkDialect, status: int, type: str, message: str, *, id: str = "") -> Reply:
    """An error that the dialect has no name for, in its form."""
    return _with_names(dialect, status, type, dialect.error_body(type, message, id=id), id, {})


def html_reply(status: int, title: str, headers: Mapping[str, str] | None = None) -> Reply:
    """The error page of a proxy in front of an API."""
    head, body = f"<head><title>{status} {title}</title></head>", f"<body><h1>{status} {title}</h1></body>"
    page = f"<html>\r\n{head}\r\n{body}\r\n</html>\r\n".encode()
    return Reply((("Content-Type", "text/html"), *(headers or {}).items()), page, status)


def seconds(value: float) -> str:
    """``0.2``, ``3``: a Retry-After allows fractions, but no exponents."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _with_names(
    dialect: LinkDialect, status: int, type: str, body: dict[str, Any], id: str, headers: Mapping[str, str]
) -> Reply:
    """The error with its id, and its type where that is a header."""
    ids = {dialect.id_header: id} if id and dialect.id_header else {}
    types = dialect.error_headers(type, status) if isinstance(dialect, NamesErrorsInHeader) else {}
    return json_reply(status, body, {**headers, **ids, **types})


_PIECE = 16


@dataclass(frozen=True)
class ToolCall:
    """A tool call that the model asks for. ``arguments`` is JSON text, as the model wrote it."""

    name: str
    arguments: str
    id: str = ""

    def values(self) -> dict[str, Any] | None:
        """The arguments; None unless they are a JSON object."""
        try:
            value = parsed(self.arguments)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None


@dataclass(frozen=True)
class ModelReply:
    """A model's reply. ``finish`` in the words of chat completions: stop, tool_calls, content_filter."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: str = "stop"

    def with_calls(self, *calls: ToolCall) -> ModelReply:
        """The same text with these calls instead."""
        return replace(self, calls=calls, finish="tool_calls")

    def with_call(self, at: int, call: ToolCall) -> ModelReply:
        """The same reply with another call at that place."""
        return replace(self, calls=(*self.calls[:at], call, *self.calls[at + 1 :]))

    def as_json(self) -> dict[str, Any]:
        """The reply as recorded in a fault's evidence."""
        calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in self.calls]
        return {"text": self.text, "tool_calls": calls, "finish": self.finish}


@dataclass(frozen=True)
class OfferedTool:
    """A tool that the request offers; ``schema`` is the JSON schema of its arguments."""

    name: str
    description: str = ""
    schema: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, value: Mapping[str, Any], *, schema: str) -> OfferedTool:
        """From an API's description of it, which has the JSON schema under the key ``schema``."""
        name, description = as_text(value.get("name")), as_text(value.get("description"))
        return cls(name, description, as_object(value.get(schema)))

    def property(self, name: str) -> dict[str, Any]:
        """The JSON schema of one argument; empty for an unknown one."""
        return as_object(as_object(self.schema.get("properties")).get(name))


@dataclass(frozen=True)
class ModelRequest:
    """A conversation: the text of its last user message, all tool calls that the model made, the tools
    that it is offered. ``model``: its name, where the request has it in its path."""

    user: str = ""
    calls: tuple[ToolCall, ...] = ()
    tools: tuple[OfferedTool, ...] = ()
    model: str = ""

    def tool(self, name: str) -> OfferedTool | None:
        """The offered tool of that name."""
        return next((tool for tool in self.tools if tool.name == name), None)


def pieces(text: str) -> Iterator[str]:
    """The text as the events of a stream bring it, 12 characters each."""
    return (text[start : start + _PIECE] for start in range(0, len(text), _PIECE))


EventKind = Literal["text", "call", "arguments", "finish", "end", "other"]
"""Content of a stream's event: ``text`` (thinking too), the begin of a tool ``call``, more of a call's
``arguments``, the ``finish`` reason, the ``end`` of the stream, or anything ``other``."""
TOKENS: frozenset[EventKind] = frozenset(("text", "call", "arguments"))


@runtime_checkable
class ModelDialect(LinkDialect, Protocol):
    """One API's requests, replies (as JSON) and event streams. ``read_reply`` and ``collect`` raise
    ``ValueError`` for anything else.

    ``id_prefix`` is how the ids of its tool calls begin.
    """

    id_prefix: str

    @property
    def path_end(self) -> str | tuple[str, ...]:
        """How its requests' paths end; several ways where it has several."""

    def read_request(self, request: Request) -> ModelRequest:
        """The conversation in a request; an empty one if it holds none that can be read."""

    def new_reply(self, id: str, model: str, created: int) -> dict[str, Any]:
        """An empty reply. ``created``: seconds since the epoch."""

    def read_reply(self, body: dict[str, Any]) -> ModelReply:
        """Read a reply."""

    def write_reply(self, body: dict[str, Any], reply: ModelReply) -> dict[str, Any]:
        """The same reply with that content instead; everything else in it stays. Raises ``NotInDialect``."""

    def usage(self, prompt: int, completion: int) -> dict[str, int]:
        """The tokens of a request and its reply, as the API counts them."""

    def collect(self, events: Iterable[bytes]) -> dict[str, Any]:
        """The reply assembled from a stream of events."""

    def spread(self, body: dict[str, Any]) -> Iterator[bytes]:
        """The reply as the events of a stream."""

    def kind_of(self, event: bytes) -> EventKind:
        """The content of an event; the first kind that fits."""

    def calls_begun(self, event: bytes) -> int:
        """How many tool calls begin in an event."""

    def arguments_in(self, event: bytes) -> str:
        """The arguments, or the piece of them, that an event brings for its first tool call."""

    def with_arguments(self, event: bytes, arguments: str) -> bytes:
        """The same event with those as its first tool call's arguments, and with no other call."""


@runtime_checkable
class FinishesWithContent(Protocol):
    """A dialect in which one event may have a part of the answer and the reason for its end."""

    def without_finish(self, event: bytes) -> bytes | None:
        """The event without that reason, empty if nothing; None if it has no such reason."""


@runtime_checkable
class HidesCutCalls(Protocol):
    """A dialect that does not show a tool call as far as it was written when the token limit was reached."""

    def cut_call(self, call: ToolCall, *, stream: bool) -> ToolCall | None:
        """The call in a reply that ends in it; None if the reply leaves it out."""


@runtime_checkable
class SendsPings(Protocol):
    """A dialect that does not keep a stream alive by comments, as other streams of server-sent events may.

    ``ping`` is the event that does; empty if its streams have none.
    """

    ping: bytes


def ping_of(dialect: ModelDialect) -> bytes:
    """The bytes that keep a stream of that dialect alive while the model works; empty without any."""
    return dialect.ping if isinstance(dialect, SendsPings) else b": keep-alive\n\n"


@runtime_checkable
class SendsErrorEvents(Protocol):
    """A dialect whose errors inside a stream are not simply its errors' bodies as events."""

    def error_event(self, type: str, body: dict[str, Any], number: int) -> bytes:
        """The error as an event. ``number``: how many events precede it."""


def error_event(dialect: ModelDialect, kind: str, number: int, **values: Any) -> bytes:
    """The error ``kind`` as an event of a stream that began well. Raises ``NotInDialect``."""
    form = dialect.errors.get(kind)
    if form is None or form.type is None:
        raise NotInDialect(f"no error {kind} in streams")
    message = form.message.format_map({"model": "the model", **values})
    body = dialect.error_body(form.type, message, code=form.code)
    if isinstance(dialect, SendsErrorEvents):
        return dialect.error_event(form.type, body, number)
    return write_event(body)


def before_finish(dialect: ModelDialect, event: bytes, kind: EventKind) -> bytes | None:
    """The remaining event if the stream stops before its finish reason; None if it has none."""
    if kind in ("finish", "end"):
        return b""
    return dialect.without_finish(event) if isinstance(dialect, FinishesWithContent) else None


def reply_body(dialect: ModelDialect, reply: Reply) -> dict[str, Any]:
    """The reply's JSON, or the JSON assembled from its event stream. Raises ``ValueError``."""
    body = dialect.collect(reply.events()) if reply.stream_form else reply.json()
    if not isinstance(body, dict):
        raise ValueError("no object")
    return body


def with_reply_body(dialect: ModelDialect, reply: Reply, body: dict[str, Any]) -> Reply:
    """The reply with another body; an event stream stays one."""
    return reply.with_body(b"".join(dialect.spread(body))) if reply.stream_form else reply.with_json(body)
