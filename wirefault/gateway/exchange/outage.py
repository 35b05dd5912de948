"""Reads from a reply whether its upstream or the client's try failed, after the client has it."""

from __future__ import annotations

from wirefault.dialects.base import ModelDialect
from wirefault.dialects.http import Reply
from wirefault.dialects.mcp import ToolAnswer
from wirefault.dialects.outages import mcp_outage, model_outage, scripted_failure, tool_outage
from wirefault.dialects.registry import MODEL_DIALECTS
from wirefault.gateway.exchange.bodies import MAX_KEPT_BODY, ServerReply
from wirefault.gateway.exchange.carrier import MessageReader
from wirefault.gateway.exchange.exchange import Exchange
from wirefault.gateway.exchange.reply_changes import MAX_BUFFERED_REPLY
from wirefault.gateway.http1.framing import ReplyReader
from wirefault.gateway.http1.messages import Decoder, Unreadable
from wirefault.wiring.links import SCRIPTED

_KNOWN_ENCODINGS = ("", "identity", "gzip", "x-gzip", "deflate")


def reply_outage(exchange: Exchange) -> str:
    """How the upstream failed to answer, as a clause; empty for an answer, and where that is unknown.

    It reads the client's reply, which is the upstream's unless a fault changed it: then the fault may be the
    cause anyway.
    """
    reply = exchange.reply
    if reply.upstream_status is None or reply.reader is None:
        return ""
    if exchange.listener.is_function:  # an exception of the subject's own function
        return ""
    if not exchange.request_done:  # the server did not read it all, so its kind may be unknown
        return tool_outage(Reply((), b"", reply.upstream_status), whole=False)
    if not exchange.keyed:
        exchange.settle_key()
    if reply.upstream_status < 400 and reply.body_start is None and not exchange.is_model:
        return ""  # the record has nothing of it that could show a failure
    try:
        return _outage(exchange, reply.upstream_status, reply.reader)
    except Exception:  # noqa: BLE001 - a plug-in's dialect may raise anything
        return ""


def client_saw_failure(exchange: Exchange) -> bool:
    """Whether the client's try failed: it has no whole reply, or one that shows a failure.

    False where that is unknown. Call it when ``outage`` is known.
    """
    reply, plan = exchange.reply, exchange.plan
    is_cut = (exchange.client_left or not reply.done) and not reply.answered_leaver
    if is_cut or reply.status is None or reply.status >= 400:
        return True
    if exchange.outage or (exchange.tool and _tool_answer(exchange) == "error"):
        return True
    faults = plan.met_faults if plan is not None else []
    is_changed = any(fault.injected and not fault.act.only_delays for fault in faults)
    if not is_changed or reply.reader is None:
        return False
    try:
        return bool(_outage(exchange, reply.status, reply.reader))
    except Exception:  # noqa: BLE001 - a plug-in's dialect may raise anything
        return False


def has_answer(exchange: Exchange, reader: MessageReader | None) -> bool:
    """Whether a stream, of which the client has all that came, holds the answer to its request by now.

    ``reader``: of the upstream's reply; None if faults may change it, or if there is none.
    """
    if reader is None or reader.head is None or reader.head.status >= 300:
        return False
    reply = exchange.reply
    if exchange.is_model:
        dialect, body = _asked_dialect(exchange), _sent_body(exchange)
        if dialect is None or not isinstance(body, bytes):
            return False
        answer = reader.message.with_body(body)
        return answer.stream_form is not None and not model_outage(dialect, answer, whole=True)
    if reply.server_reply is None:
        return False
    reply.server_reply.reader = reader
    response = reply.server_reply.response
    return response is not None and response.error is None


def _tool_answer(exchange: Exchange) -> ToolAnswer:
    """How the client's reply answers its call of an MCP tool; empty where that is unknown."""
    reply = exchange.reply
    body = _kept_body(exchange)
    if reply.reader is None or not isinstance(body, bytes):
        return reply.server_reply.tool_answer if reply.server_reply is not None else ""
    answer = ServerReply()
    answer.reader = reply.reader
    answer.keep(body)
    return answer.tool_answer


def _outage(exchange: Exchange, status: int, reader: MessageReader) -> str:
    reply = exchange.reply
    whole = reply.done and not exchange.client_left
    if exchange.is_model:
        return _model_outage(exchange, reader, whole)
    body = _kept_body(exchange)
    if isinstance(body, str):
        return f"it answered {status} with {body}" if whole and status < 300 else ""
    if body is None:
        return _by_status(exchange, status, reader)
    answer = reader.message.with_body(body)
    if exchange.message is not None:
        is_request = bool(exchange.message) and not exchange.message.startswith("notifications/")
        return mcp_outage(answer, whole=whole and is_request)
    method = exchange.head.method
    wants_json = method == "GET" and _header(exchange, b"accept", b",") == b"application/json"
    no_page = _header(exchange, b"content-type") == b"application/json"
    return tool_outage(answer, whole=whole and method != "HEAD", wants_json=wants_json, no_page=no_page)


def _model_outage(exchange: Exchange, reader: MessageReader, whole: bool) -> str:
    reply = exchange.reply
    status = reply.upstream_status or 0
    body = _sent_body(exchange)
    if isinstance(body, str):
        return f"it answered {status} with {body}" if whole and status < 300 else ""
    answer = reader.message.with_body(body or b"")
    if exchange.listener.link.upstream == SCRIPTED and (failure := scripted_failure(answer)):
        return failure
    if body is None:
        return model_outage(None, answer, whole=False)
    return model_outage(_asked_dialect(exchange), answer, whole=whole)


def _asked_dialect(exchange: Exchange) -> ModelDialect | None:
    """The dialect of a question to a model; None for any other request on its link, such as a list."""
    dialect = MODEL_DIALECTS.get(exchange.dialect)
    asks = exchange.head.method == "POST" and dialect is not None and exchange.path.endswith(dialect.path_end)
    return dialect if asks else None


def _by_status(exchange: Exchange, status: int, reader: MessageReader) -> str:
    """What the status alone shows."""
    if status < 400:
        return ""
    return (mcp_outage if exchange.message is not None else tool_outage)(reader.message, whole=False)


def _sent_body(exchange: Exchange) -> bytes | str | None:
    """The body of a model's reply; a text about it if it cannot be decoded; None if it was not kept."""
    pieces = exchange.reply.pieces
    if pieces is None or not pieces.pieces:
        return None
    body = bytearray()
    reader = ReplyReader(exchange.head.method, False, True, body.extend)
    for _, data in pieces.pieces:
        reader.feed(data)
    return _decoded(exchange, bytes(body))


def _kept_body(exchange: Exchange) -> bytes | str | None:
    """The same of any other reply."""
    start = exchange.reply.body_start
    if start is None or start.cut or len(start) > MAX_KEPT_BODY:
        return None
    return _decoded(exchange, bytes(start))


def _decoded(exchange: Exchange, body: bytes) -> bytes | str | None:
    encoding = exchange.reply.encoding
    if encoding not in _KNOWN_ENCODINGS:
        return None
    try:
        return Decoder(encoding, MAX_BUFFERED_REPLY).feed(body)
    except Unreadable:
        return "a body that does not match its Content-Encoding"


def _header(exchange: Exchange, name: bytes, separator: bytes = b";") -> bytes:
    """The first value of the request's header without its parameters, in small letters."""
    for line in exchange.head.lines[1:]:
        header, _, value = line.partition(b":")
        if header.strip().lower() == name:
            return value.partition(separator)[0].partition(b";")[0].strip().lower()
    return b""
