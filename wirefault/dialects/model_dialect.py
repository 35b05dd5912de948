"""What a dialect of model APIs must offer, so that faults and servers need not know which it is. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, Protocol, runtime_checkable

from wirefault.dialects.errors import LinkDialect
from wirefault.dialects.event_stream import split_events
from wirefault.dialects.http import Reply, Request
from wirefault.dialects.model_messages import ModelReply, ModelRequest

EventKind = Literal["text", "call", "arguments", "finish", "end", "other"]
"""What an event of a stream brings: ``text`` (thinking too), the begin of a tool ``call``, more of a call's
``arguments``, the ``finish`` reason, the ``end`` of the stream, or anything ``other``."""
TOKENS: frozenset[EventKind] = frozenset(("text", "call", "arguments"))


@runtime_checkable
class ModelDialect(LinkDialect, Protocol):
    """One API's requests, replies (as JSON) and event streams. ``read_reply`` and ``collect`` raise
    ``ValueError`` for what is no reply.

    ``id_prefix`` is how the ids of its tool calls begin.
    """

    id_prefix: str

    @property
    def path_end(self) -> str | tuple[str, ...]:
        """How its requests' paths end; several ways where it has several."""

    def read_request(self, request: Request) -> ModelRequest:
        """The conversation in a request; an empty one if it holds none that can be read."""

    def new_reply(self, id: str, model: str, created: int) -> dict[str, Any]:
        """A reply that says nothing yet. ``created``: seconds since the epoch."""

    def read_reply(self, body: dict[str, Any]) -> ModelReply:
        """What a reply says."""

    def write_reply(self, body: dict[str, Any], reply: ModelReply) -> dict[str, Any]:
        """The same reply saying that instead; whatever else it holds stays."""

    def usage(self, prompt: int, completion: int) -> dict[str, int]:
        """The tokens of a request and its reply, as the API counts them."""

    def collect(self, events: Iterable[bytes]) -> dict[str, Any]:
        """The reply that a stream of events amounts to."""

    def spread(self, body: dict[str, Any]) -> Iterator[bytes]:
        """The reply as the events of a stream."""

    def kind_of(self, event: bytes) -> EventKind:
        """What an event brings; the first kind that fits."""

    def calls_begun(self, event: bytes) -> int:
        """How many tool calls begin in an event."""

    def arguments_in(self, event: bytes) -> str:
        """The arguments, or the piece of them, that an event brings for its first tool call."""

    def with_arguments(self, event: bytes, arguments: str) -> bytes:
        """The same event with those as its first tool call's arguments, and with no other call."""


@runtime_checkable
class FinishesWithContent(Protocol):
    """A dialect whose events may bring a part of the answer and the reason for its end together."""

    def without_finish(self, event: bytes) -> bytes | None:
        """What the event brings besides that reason, empty if nothing; None if it has no such reason."""


def before_finish(dialect: ModelDialect, event: bytes, kind: EventKind) -> bytes | None:
    """What is left of an event if the stream stops before its finish reason; None if it has none."""
    if kind in ("finish", "end"):
        return b""
    return dialect.without_finish(event) if isinstance(dialect, FinishesWithContent) else None


def reply_body(dialect: ModelDialect, reply: Reply) -> dict[str, Any]:
    """The reply's JSON, or what its event stream amounts to. Raises ``ValueError``."""
    body = dialect.collect(split_events(reply.body)) if reply.is_event_stream else reply.json()
    if not isinstance(body, dict):
        raise ValueError("no object")
    return body


def with_reply_body(dialect: ModelDialect, reply: Reply, body: dict[str, Any]) -> Reply:
    """The reply with another body; an event stream stays one."""
    return reply.with_body(b"".join(dialect.spread(body))) if reply.is_event_stream else reply.with_json(body)
