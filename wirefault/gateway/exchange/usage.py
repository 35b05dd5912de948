"""What a model's reply took: its tokens, and the time to its first one. Read once it has gone out."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from wirefault.dialects.base import TOKENS, ModelDialect
from wirefault.dialects.http import Reply
from wirefault.dialects.registry import MODEL_DIALECTS, dialect_of
from wirefault.dialects.token_usage import TokenUsage, may_have_usage, read_stream_usage, read_usage
from wirefault.gateway.exchange.bodies import Piece, SentPieces
from wirefault.gateway.exchange.reply_changes import MAX_BUFFERED_REPLY, EventSplitter
from wirefault.gateway.exchange.request import RequestInProgress
from wirefault.gateway.http1.framing import ReplyReader
from wirefault.gateway.http1.messages import Decoder, Unreadable, content_encoding, reply_of

_LONGEST_NAME = 200
# In a header block: what may hide the usage from a search, or has a first token.
_TO_READ = re.compile(rb"event-stream|-encoding:", re.IGNORECASE)


def kept_for_usage(request: RequestInProgress) -> SentPieces | None:
    """Where what a model's client is sent shall be kept: for a reply that goes into a history."""
    return SentPieces() if request.run is not None else None


def usage_fields(request: RequestInProgress, kept: SentPieces) -> str:
    """The fields of the exchange's record that are known, each after a comma, as JSON; empty without any.

    Who counts what the request takes is told of its tokens.
    """
    if kept.upstream is None and _tells_nothing(kept.pieces):
        return ""
    try:
        usage, first = _usage_of(kept.upstream), None
        sent = _SentReply(request.head.method, kept.pieces)
        if sent.reply is not None and sent.reply.is_event_stream:
            dialect = MODEL_DIALECTS[dialect_of(request.head.target.partition("?")[0], of_model=True)]
            first = sent.first_token_at(dialect)
        if kept.upstream is None and sent.reply is not None:
            usage = _usage_of(sent.reply.with_body(sent.read_rest()))
    except Exception:  # noqa: BLE001 - a body may be anything, a package's dialect may raise anything
        return ""
    if request.charge is not None:
        request.charge.usage = usage
    fields = {
        "model": _storable(usage.model) or None,
        "tokens_in": usage.tokens_in,
        "tokens_out": usage.tokens_out,
        "first_token_ms": None if first is None else round((first - request.whole_at) * 1000, 3),
    }
    known = {name: value for name, value in fields.items() if value is not None}
    return f",{json.dumps(known, separators=(',', ':'))[1:-1]}" if known else ""


def _tells_nothing(pieces: Sequence[Piece]) -> bool:
    """Whether it takes no reading to see that nothing is told: most replies that are no model's are so."""
    sent = b"".join(data for _, data in pieces)
    return b"usage" not in sent and _TO_READ.search(sent, 0, max(sent.find(b"\r\n\r\n"), 0)) is None


class _SentReply:
    """A reply that went out in pieces. ``reply`` is its head, None without one; its body is read on demand.

    Raises ``Unreadable``, as its methods do, for a Content-Encoding that the gateway does not read.
    """

    def __init__(self, method: str, pieces: Sequence[Piece]) -> None:
        self.reply: Reply | None = None
        self._body = bytearray()
        self._pieces = iter(pieces)
        self._reader = ReplyReader(method, False, True, self._body.extend)
        self._head_at = 0.0
        for at, data in self._pieces:
            self._reader.feed(data)
            if self._reader.head is not None:
                self.reply, self._head_at = reply_of(self._reader.block), at
                break
        encoding = content_encoding(self._reader.block) if self.reply else ""
        self._decoder = Decoder(encoding, MAX_BUFFERED_REPLY) if encoding else None
        self._decoded = bytearray()

    def _decode(self) -> bytes:
        """What the bytes that were read last carry."""
        data = self._decoder.feed(bytes(self._body)) if self._decoder else bytes(self._body)
        self._body.clear()
        self._decoded += data
        if len(self._decoded) > MAX_BUFFERED_REPLY:
            raise Unreadable("it grows too large")
        return data

    def first_token_at(self, dialect: ModelDialect) -> float | None:
        """When the event that brings the first of the answer was whole; None if no event does."""
        splitter = EventSplitter()
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
        """The body; of what is not encoded, and is an event stream or tells nothing, with its framing."""
        rest = b"".join(data for _, data in self._pieces)
        if self._decoder is None and self.reply is not None:
            framed = bytes(self._decoded or self._body) + rest
            if self.reply.is_event_stream or not may_have_usage(framed):
                return framed
        self._reader.feed(rest)
        self._decode()
        return bytes(self._decoded)


def _usage_of(reply: Reply | None) -> TokenUsage:
    if reply is None or reply.status >= 300 or not may_have_usage(reply.body):
        return TokenUsage()
    return read_stream_usage(reply.body) if reply.is_event_stream else read_usage(reply.json())


def _storable(name: str) -> str:
    """A name as the history takes it: of a bounded length, and nothing that UTF-8 cannot hold."""
    return name[:_LONGEST_NAME].encode("utf-8", "replace").decode()
