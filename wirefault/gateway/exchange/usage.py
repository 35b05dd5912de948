"""Token usage of a model's reply, and the time to its first token; read after the client has it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from wirefault.dialects.base import TOKENS, ModelDialect
from wirefault.dialects.http import Reply, Request
from wirefault.dialects.registry import MODEL_DIALECTS
from wirefault.dialects.stream_forms import AWS_EVENT_STREAM
from wirefault.dialects.token_usage import (
    TokenUsage,
    may_have_usage,
    read_events_usage,
    read_stream_usage,
    read_usage,
)
from wirefault.gateway.exchange.bodies import SentPieces
from wirefault.gateway.exchange.exchange import Exchange
from wirefault.gateway.exchange.reply_changes import MAX_BUFFERED_REPLY, EventSplitter
from wirefault.gateway.http1.framing import ReplyReader
from wirefault.gateway.http1.messages import Decoder, Unreadable, content_encoding, reply_of

_MAX_NAME = 200
# Header blocks of replies that hide the usage from a plain search, or that have a first token.
_TO_READ = re.compile(rb"event-?stream|ndjson|-encoding:", re.IGNORECASE)


def usage_fields(exchange: Exchange, client_reply: SentPieces) -> dict[str, Any]:
    """Return the fields of the record; the charge gets the tokens."""
    if client_reply.upstream is None and _has_no_usage(client_reply.pieces):
        return {}
    try:
        usage, first = _usage_of(client_reply.upstream), None
        reply = _SentReply(exchange.head.method, client_reply.pieces)
        if reply.head is not None and reply.head.stream_form is not None:
            dialect = MODEL_DIALECTS[exchange.dialect]
            first = reply.first_token_at(dialect)
        if client_reply.upstream is None and reply.head is not None:
            usage = _usage_of(reply.head.with_body(reply.read_rest()))
    except Exception:  # noqa: BLE001 - a body may be anything, a plug-in's dialect may raise anything
        return {}
    if not usage.model and usage != TokenUsage():
        usage = replace(usage, model=_model_in_path(exchange))
    if exchange.decision is not None and exchange.decision.charge is not None:
        exchange.decision.charge.usage = usage
    return {
        "model": _storable(usage.model) or None,
        "tokens_in": usage.tokens_in,
        "tokens_out": usage.tokens_out,
        "first_token_ms": None
        if first is None
        else round(max(first - exchange.request_ended, 0.0) * 1000, 3),
    }


def _model_in_path(exchange: Exchange) -> str:
    """The model that the request's path names, where the reply names none; empty without one."""
    dialect = MODEL_DIALECTS.get(exchange.dialect)
    request = Request(method=exchange.head.method, target=exchange.head.target)
    return dialect.read_request(request).model if dialect is not None else ""


def _has_no_usage(pieces: Sequence[tuple[float, bytes]]) -> bool:
    """Whether a plain search finds neither usage nor a name, as in most replies that are not a model's."""
    sent_bytes = b"".join(data for _, data in pieces)
    named = b"usage" in sent_bytes or b"eval_count" in sent_bytes or b'"model' in sent_bytes
    return not named and not _TO_READ.search(sent_bytes, 0, max(sent_bytes.find(b"\r\n\r\n"), 0))


class _SentReply:
    """A reply in the pieces in which it was sent. ``head`` lacks the body, which is read on demand.

    All of it raises ``Unreadable`` for an unknown Content-Encoding.
    """

    def __init__(self, method: str, pieces: Sequence[tuple[float, bytes]]) -> None:
        self.head: Reply | None = None
        self._body = bytearray()
        self._pieces = iter(pieces)
        self._reader = ReplyReader(method, False, True, self._body.extend)
        self._head_at = 0.0
        for at, data in self._pieces:
            self._reader.feed(data)
            if self._reader.head is not None:
                self.head, self._head_at = reply_of(self._reader.block), at
                break
        encoding = content_encoding(self._reader.block) if self.head else ""
        self._decoder = Decoder(encoding, MAX_BUFFERED_REPLY) if encoding else None
        self._decoded = bytearray()

    def _decode(self) -> bytes:
        """Decode the part of the body that was read last."""
        data = self._decoder.feed(bytes(self._body)) if self._decoder else bytes(self._body)
        self._body.clear()
        self._decoded += data
        if len(self._decoded) > MAX_BUFFERED_REPLY:
            raise Unreadable("it grows too large")
        return data

    def first_token_at(self, dialect: ModelDialect) -> float | None:
        """Return when the event with the first token was complete; None without such an event."""
        splitter = EventSplitter(self.head.stream_form if self.head is not None else None)
        at = self._head_at
        while True:
            if any(dialect.kind_of(event) in TOKENS for event in splitter.feed(self._decode())):
                return at
            piece = next(self._pieces, None)
            if piece is None:
                return None
            at, data = piece
            self._reader.feed(data)

    def read_rest(self) -> bytes:
        """Return the body. An unencoded stream, or body without usage, keeps its framing: that is cheaper."""
        rest = b"".join(data for _, data in self._pieces)
        if self._decoder is None and self.head is not None:
            framed = bytes(self._decoded or self._body) + rest
            has_lines = self.head.stream_form not in (None, AWS_EVENT_STREAM)
            if has_lines or not may_have_usage(framed):
                return framed
        self._reader.feed(rest)
        self._decode()
        return bytes(self._decoded)


def _usage_of(reply: Reply | None) -> TokenUsage:
    if reply is None or reply.status >= 300 or not may_have_usage(reply.body):
        return TokenUsage()
    if reply.stream_form is AWS_EVENT_STREAM:
        return read_events_usage(reply.events())
    return read_stream_usage(reply.body) if reply.stream_form is not None else read_usage(reply.json())


def _storable(name: str) -> str:
    """Bound the name and replace what UTF-8 cannot encode, for the history."""
    return name[:_MAX_NAME].encode("utf-8", "replace").decode()
