"""What a model's reply took: its tokens, and the time to its first one. Read once it has gone out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import accumulate

from windtunnel.dialects.event_stream import split_events
from windtunnel.dialects.http import Reply
from windtunnel.dialects.model_dialect import TOKENS, ModelDialect
from windtunnel.dialects.registry import MODEL_DIALECTS, dialect_of
from windtunnel.dialects.token_usage import TokenUsage, may_have_usage, read_stream_usage, read_usage
from windtunnel.gateway.connection.request_in_progress import RequestInProgress
from windtunnel.gateway.connection.sent_pieces import Piece, SentPieces
from windtunnel.gateway.connection.upstream_reply import MAX_BUFFERED_REPLY
from windtunnel.gateway.http1.messages import Decoder, Unreadable, content_encoding, reply_of
from windtunnel.gateway.http1.reply_reader import ReplyReader

_LONGEST_NAME = 200


def kept_for_usage(request: RequestInProgress) -> SentPieces | None:
    """Where what the client is sent shall be kept: for a model's reply that goes into a history."""
    return SentPieces() if request.of_model and request.run is not None else None


def usage_fields(request: RequestInProgress, kept: SentPieces) -> str:
    """The fields of the exchange's record that are known, each after a comma, as JSON; empty without any."""
    dialect = MODEL_DIALECTS[dialect_of(request.head.target.partition("?")[0], of_model=True)]
    try:
        reply, pieces = _carried(request.head.method, kept.pieces)
        first = _first_token_at(dialect, reply.body, pieces) if reply.is_event_stream else None
        usage = _usage_of(kept.upstream or reply)
    except (ValueError, RecursionError):  # an encoding or JSON that cannot be read; the latter nested deep
        return ""
    fields = {
        "model": _storable(usage.model) or None,
        "tokens_in": usage.tokens_in,
        "tokens_out": usage.tokens_out,
        "first_token_ms": None if first is None else round((first - request.whole_at) * 1000, 3),
    }
    known = {name: value for name, value in fields.items() if value is not None}
    return f",{json.dumps(known)[1:-1]}" if known else ""


def _storable(name: str) -> str:
    """A name as the history takes it: of a bounded length, and nothing that UTF-8 cannot hold."""
    return name[:_LONGEST_NAME].encode("utf-8", "replace").decode()


def _carried(method: str, sent: Sequence[Piece]) -> tuple[Reply, Sequence[Piece]]:
    """The reply with its body, and what each piece carried of that. Raises ``Unreadable``."""
    body = bytearray()
    reader = ReplyReader(method, False, True, body.extend)
    carried: list[Piece] = []
    for at, data in sent:
        before = len(body)
        reader.feed(data)
        carried.append((at, bytes(body[before:])))
    if reader.head is None:
        raise Unreadable("no reply")
    decoder = Decoder(content_encoding(reader.block), MAX_BUFFERED_REPLY)
    decoded = [(at, decoder.feed(data)) for at, data in carried]
    return reply_of(reader.block, b"".join(data for _, data in decoded)), decoded


def _first_token_at(dialect: ModelDialect, body: bytes, pieces: Sequence[Piece]) -> float | None:
    """When the event that brings the first of the answer was whole; None if no event does."""
    ends = accumulate(len(data) for _, data in pieces)
    times = zip(ends, (at for at, _ in pieces), strict=True)
    end = 0
    for event in split_events(body):
        end += len(event)
        if dialect.kind_of(event) in TOKENS:
            return next(at for reached, at in times if reached >= end)
    return None


def _usage_of(reply: Reply) -> TokenUsage:
    if reply.status >= 300 or not may_have_usage(reply.body):
        return TokenUsage()
    return read_stream_usage(split_events(reply.body)) if reply.is_event_stream else read_usage(reply.json())
