"""Writes a finished exchange into its run's history."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from email.utils import parsedate_to_datetime
from functools import lru_cache
from json.encoder import encode_basestring as _quote
from typing import Any

from pydantic_core import from_json

from wirefault.core.caller_errors import sorted_kinds
from wirefault.core.identity import TRACEPARENT_HEADER
from wirefault.core.redaction import Redaction
from wirefault.dialects.http import SAFE_METHODS
from wirefault.dialects.json_values import as_object
from wirefault.dialects.mcp import MCP, SESSION_HEADER, McpMessage
from wirefault.faults.plan import MetFault
from wirefault.gateway.exchange.bodies import MAX_FAULTED_BODY, BodyStart, kept_text
from wirefault.gateway.exchange.carrier import MessageReader
from wirefault.gateway.exchange.exchange import Exchange
from wirefault.gateway.exchange.usage import usage_fields
from wirefault.gateway.http1.heads import (
    CONTENT_ENCODING,
    IDEMPOTENCY_KEYS,
    OPERATION,
    RequestHead,
    client_credential,
    read_header,
    sdk_retries,
)
from wirefault.gateway.run import Run
from wirefault.gateway.websocket.session import SIDES, WebSocketSession
from wirefault.history.events import FaultedReply, FaultMet, LateRequest
from wirefault.history.link_events import KEPT_HEADERS
from wirefault.judging.requests import fate_of
from wirefault.wiring.links import Link

_MAX_EVIDENCE = 32 * 1024
_MAX_HEADER = 200
_KEPT_HEADERS = {name.lower(): name for name in KEPT_HEADERS}
_MCP_DIALECT = f',"dialect":"{MCP.name}"'
_NOTABLE_S = 0.01
_TRACEPARENT = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_MAX_ID = 10**40  # Python refuses to print a number of some thousand digits


def record_exchange(exchange: Exchange) -> None:
    """Write the exchange into its run's history, once."""
    run = exchange.origin.run
    if run is None or exchange.recorded:
        return
    exchange.recorded = True
    reply = exchange.reply
    if not reply.size:
        exchange.ended = time.perf_counter()
    if exchange.request_done and not exchange.keyed:
        exchange.settle_key()
    run.write(_exchange_line(exchange))
    if exchange.origin.late_of is not None:
        _record_late(exchange, run)
    charge = exchange.decision.charge if exchange.decision is not None else None
    if charge is not None:
        status = reply.upstream_status
        run.settle_charge(charge, answered=exchange.forwarded and (status is None or status < 300))


def _record_late(exchange: Exchange, run: Run) -> None:
    """Record the late request in the attempt in progress, too, if there is one."""
    during, named, listener = exchange.origin.attempt, exchange.origin.late_of, exchange.listener
    if during is None or named is None:
        return
    is_write = listener.link.is_write(exchange.head.method, exchange.head.target, exchange.tool)
    wrote = is_write and exchange.forwarded and fate_of(exchange.reply.upstream_status) != "refused"
    late = named.episode, named.number, wrote
    run.record(LateRequest(time.time(), during.episode, during.number, listener.name, *late))


def _exchange_line(exchange: Exchange) -> str:
    """``wirefault.history.events.Exchange`` as JSON, made by hand since every request needs it.

    Default values are left out, as ``dump_line`` does.
    """
    head, began, reply = exchange.head, exchange.began, exchange.reply
    more = _wire_fields(exchange)
    started = time.time() - (time.perf_counter() - began)
    if exchange.plan is not None and exchange.plan.met_faults:
        redact = _redact_in(exchange)
        # vars, since asdict would copy the evidence, which is written at once
        faults = [vars(fault_met(fault, began, redact)) for fault in exchange.plan.met_faults]
        more = f',"faults":{json.dumps(faults, ensure_ascii=False)}{more}'
    fingerprint = f',"fingerprint":"{exchange.fingerprint}"' if exchange.fingerprint else ""
    further_try = f',"try_":{exchange.try_}' if exchange.try_ != 1 else ""
    unusual = "".join(_unusual_fields(exchange)) if _is_unusual(exchange) else ""
    return (
        f'{{"start":{started:.6f},{exchange.origin.fields_json},"link":"{exchange.listener.name}"'
        f',"method":{_quote(head.method)},"target":{_quote(exchange.listener.redaction.target(head.target))}{fingerprint}'
        f',"call":{exchange.call}{further_try}'
        f',"ms":{(exchange.ended - began) * 1000:.3f},"status":{reply.status or "null"}'
        f',"request_bytes":{exchange.request_bytes},"reply_bytes":{reply.size}{unusual}'
        f"{more}{usage_fields(exchange, reply.pieces) if reply.pieces and exchange.is_model else ''}"
        ',"event":"exchange"}'
    )


def _is_unusual(exchange: Exchange) -> bool:
    """Whether ``_unusual_fields`` has any: for most requests it has none."""
    went_well = exchange.request_done and exchange.reply.done and exchange.forwarded
    failed = exchange.error is not None or exchange.unavailable or exchange.client_left
    named = exchange.origin.identity == "baggage"
    decision = exchange.decision
    eligible = decision is not None and (decision.eligible or decision.replay)
    return not (went_well and named) or failed or bool(eligible or exchange.configuration)


def _unusual_fields(exchange: Exchange) -> Iterator[str]:
    """The fields about how far the exchange got, each after a comma, that differ from their defaults."""
    if exchange.origin.identity != "baggage":
        yield f',"identity":"{exchange.origin.identity}"'
    if not exchange.request_done:
        yield ',"request_complete":false'
    if not exchange.reply.done:
        yield ',"reply_complete":false'
    if not exchange.forwarded:
        yield ',"forwarded":false'
    if exchange.decision is not None and exchange.decision.eligible:
        yield f',"eligible":{json.dumps(exchange.decision.eligible, ensure_ascii=False)}'
    if exchange.decision is not None and exchange.decision.replay:
        yield f',"replay":"{exchange.decision.replay}"'
    if exchange.configuration:
        yield f',"configuration":{exchange.configuration}'
    if exchange.error is not None:
        yield f',"error":{_quote(exchange.error)}'
    if exchange.unavailable:
        yield ',"unavailable":true'
    if exchange.outage:
        outage = _redact_in(exchange).text(exchange.outage)
        yield f',"outage":{_quote(outage)}'
    if exchange.client_left:
        yield ',"client_left":true'
        if exchange.left_at:
            yield f',"left_ms":{(exchange.left_at - exchange.began) * 1000:.3f}'


# faults

_sorted_causes = lru_cache(sorted_kinds)  # a fault set has few of them


def fault_met(fault: MetFault, began: float, redact: _Redact | None = None) -> FaultMet:
    """Return the record of a fault that a try has met.

    ``began``: when the request began (``perf_counter``). ``redact`` removes secrets.
    """
    evidence = _readable(fault.evidence, redact or _Redact(Redaction()))
    # the lab's own error is recorded under the name of its answer: rate_limit and so on
    kind = str(evidence.get("kind")) if fault.fault.name == "http_error" else fault.fault.name
    return FaultMet(
        id=fault.id,
        kind=kind,
        injected=fault.injected,
        why_not=None if fault.injected else fault.why_not or "cut_short",
        detail=fault.detail if not fault.injected else "",
        delay_ms=round(fault.delay_ms, 3),
        shows=fault.shows or None,
        evidence=evidence,
        content=fault.content,
        causes=_sorted_causes(frozenset(fault.fault.causes)),
        acted_ms=None if fault.acted_at is None else round((fault.acted_at - began) * 1000, 3),
        answered=fault.answered,
    )


def _readable(evidence: Mapping[str, Any], redact: _Redact) -> dict[str, Any]:
    """Return evidence that readers of the history can read: JSON of bounded length, without secrets."""
    if not evidence:
        return {}
    try:
        text = json.dumps(evidence, ensure_ascii=False, allow_nan=False, default=str).encode(
            "utf-8", "replace"
        )
        value = from_json(text)
    except (ValueError, RecursionError):  # nested too deep, or a number that readers refuse
        return {"unreadable": sorted(map(str, evidence))}
    if len(text) > _MAX_EVIDENCE:
        return {"too_long": redact.text(text[:4096].decode("utf-8", "replace"))}
    return {name: _redacted(member, redact) for name, member in value.items()}


def _redacted(value: Any, redact: _Redact) -> Any:
    """Remove secrets from the texts of a value that was read from JSON, which bounds its depth."""
    if isinstance(value, str):
        return redact.text(value)
    if isinstance(value, list):
        return [_redacted(member, redact) for member in value]
    if isinstance(value, dict):
        return {name: _redacted(member, redact) for name, member in value.items()}
    return value


# the wire


def _wire_fields(exchange: Exchange) -> str:
    """The fields about the wire that differ from their defaults, as JSON, each after a comma."""
    head, reply, listener, run = exchange.head, exchange.reply, exchange.listener, exchange.origin.run
    # most requests have only the dialect, which is the same for their whole link
    fields = listener.dialect_field
    if listener.dialect_by_request and exchange.message is not None:
        fields = _MCP_DIALECT
    elif exchange.is_model:  # one host may speak several APIs
        fields = f',"dialect":"{exchange.dialect}"'
    if exchange.message:
        fields += _message_fields(exchange.message, exchange)
    request_s = exchange.request_ended - exchange.began
    if exchange.request_done and request_s >= _NOTABLE_S:
        fields += f',"request_ms":{request_s * 1000:.3f}'
    if exchange.tls:
        fields += f',"tls":"{exchange.tls}"'
    if listener.link.writes or listener.link.key or head.noted:
        fields += _write_fields(exchange, listener.link)
    if head.trace_at and exchange.origin.identity != "baggage":
        fields += _trace_field(head)
    if head.noted or "?" in head.target:
        fields += _client_fields(head.noted, client_credential(exchange.head), listener.redaction)
    if reply.status != reply.upstream_status or (reply.status is not None and reply.status >= 300):
        fields += "".join(_reply_fields(exchange))
    if reply.websocket is not None:
        fields += "".join(_websocket_fields(reply.websocket))
    if exchange.decision is not None and exchange.decision.shadows:
        shadows = [asdict(shadow) for shadow in exchange.decision.shadows]
        fields += f',"shadows":{json.dumps(shadows, ensure_ascii=False)}'
    keeps_bodies = run is not None and run.keeps_bodies
    if keeps_bodies or exchange.plan is not None or reply.body_start is not None:
        redact = _redact_in(exchange)
        if keeps_bodies:
            fields += "".join(_body_fields(exchange, head.noted.get(CONTENT_ENCODING, ""), redact))
        fields += _faulted_reply_field(exchange, redact)
    return fields


def _websocket_fields(session: WebSocketSession) -> Iterator[str]:
    for side in SIDES:
        yield f',"{side}_messages":{session.count(side)}' if session.count(side) else ""
        if side in session.close_codes:
            yield f',"{side}_close":{session.close_codes[side]}'
    if session.unreadable:
        yield f',"unread_messages":{_quote(session.unreadable)}'


def _message_fields(method: str, exchange: Exchange) -> str:
    fields = f',"message":{_quote(method)}'
    if session := read_header(exchange.head, SESSION_HEADER):
        fields += f',"session":"{exchange.listener.redaction.digest(session)}"'
    if exchange.tool:
        fields += f',"tool":{_quote(exchange.tool)}'
        answer = exchange.reply.server_reply.tool_answer if exchange.reply.server_reply else ""
        fields += f',"tool_answer":"{answer}"' if answer else ""
    return fields


def _write_fields(exchange: Exchange, link: Link) -> str:
    head = exchange.head
    write = ',"write":true' if link.is_write(head.method, head.target, exchange.tool) else ""
    if not write and head.method in SAFE_METHODS:
        return ""
    keys = (head.noted.get(name) for name in IDEMPOTENCY_KEYS)
    key = next(filter(None, keys), "") or _key_in_body(exchange, link)
    return f'{write},"key":{_quote(key)}' if key else write


def _key_in_body(exchange: Exchange, link: Link) -> str:
    """The key in the JSON field that the wiring names; empty without one, or in too long a body."""
    start = exchange.body_start
    if not link.key or start is None or start.cut:
        return ""
    try:
        body = from_json(bytes(start))
    except ValueError:
        return ""
    if exchange.tool:
        body = McpMessage("request", as_object(body)).arguments
    value = body.get(link.key) if isinstance(body, dict) else None
    if isinstance(value, str):
        return value
    is_id = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _MAX_ID
    return str(value) if is_id else ""


def _client_fields(noted: Mapping[bytes, str], secret: str, redaction: Redaction) -> str:
    fields = f',"credential":"{redaction.digest(secret)}"' if secret else ""
    retries = sdk_retries(noted)
    fields += f',"sdk_retry":{retries}' if retries else ""
    return f'{fields},"operation":{_quote(noted[OPERATION])}' if OPERATION in noted else fields


def _trace_field(head: RequestHead) -> str:
    """``traceparent`` as W3C defines it, version 00; empty for anything else, which may be a secret."""
    value = read_header(head, TRACEPARENT_HEADER)
    return f',"traceparent":"{value}"' if _TRACEPARENT.fullmatch(value) else ""


class _Redact:
    """Removes the secrets of one exchange, the client's own ``secrets`` among them."""

    def __init__(self, redaction: Redaction, secrets: Sequence[str] = ()) -> None:
        self._redaction, self._secrets = redaction, secrets

    def text(self, text: str) -> str:
        return self._redaction.text(text, self._secrets)

    def body(self, text: str) -> str:
        """Return a body without secrets; it may be a form."""
        return self._redaction.body(text, self._secrets)


def _redact_in(exchange: Exchange) -> _Redact:
    redaction = exchange.listener.redaction
    return _Redact(redaction, [client_credential(exchange.head), *redaction.secrets_in(exchange.head.target)])


def _reply_fields(exchange: Exchange) -> Iterator[str]:
    reply = exchange.reply
    if reply.upstream_status is not None and reply.upstream_status != reply.status:
        yield f',"upstream_status":{reply.upstream_status}'
    if reply.status is not None and reply.status >= 300 and reply.reader is not None:
        headers = {name.lower(): value for name, value in reply.reader.message.headers}
        seconds = _retry_after(headers, time.time())
        if seconds is not None:
            yield f',"retry_after":{seconds:g}'


def _retry_after(headers: dict[str, str], now: float) -> float | None:
    """Seconds, from a number or a date; ``retry-after-ms`` is more exact and comes first."""
    exact, text = headers.get("retry-after-ms", ""), headers.get("retry-after", "")
    if not (exact or text):
        return None
    try:
        seconds = float(exact) / 1000 if exact else float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - now
        except (ValueError, TypeError, OverflowError):  # a server may send anything as a date
            return None
    return min(max(seconds, 0.0), 1e9) if seconds == seconds else None


# bodies


def _body_fields(exchange: Exchange, encoding: str, redact: _Redact) -> Iterator[str]:
    text, cut = kept_text(exchange.body_start or BodyStart(), encoding.lower(), redact.body)
    yield f',"request_body":{_quote(text)}'
    if cut or not exchange.request_done:
        yield ',"request_cut":true'
    reply = exchange.reply
    if reply.body_start is not None and reply.status is not None:
        text, cut = kept_text(reply.body_start, reply.encoding, redact.body)
        yield f',"reply_body":{_quote(text)}'
        if cut or not reply.done:
            yield ',"reply_cut":true'


def _faulted_reply_field(exchange: Exchange, redact: _Redact) -> str:
    """``Exchange.faulted_reply``: a reply before and after a fault or a toxic changed it; empty without."""
    plan, reply = exchange.plan, exchange.reply
    injected = plan is not None and any(fault.injected for fault in plan.met_faults)
    if not injected and not exchange.crosses_toxic:
        return ""
    observed: tuple[str | None, bool] = (None, False)
    if reply.body_start is not None and reply.status is not None:
        text, cut = _first_part(reply.body_start, reply.encoding, redact)
        observed = text, cut or not reply.done
    observed_headers = _kept_headers(reply.reader, redact) if observed[0] is not None else {}
    before: tuple[str | None, bool] = (None, False)
    headers: dict[str, str] = {}
    if reply.upstream is not None and reply.upstream.reader is not None:
        before = _first_part(reply.upstream.body_start, reply.upstream.reader.encoding, redact)
        headers = _kept_headers(reply.upstream.reader, redact)
    elif reply.upstream is None and reply.upstream_status is not None:
        before, headers = observed, observed_headers  # the fault acted on the request, or only delayed it
    both = FaultedReply(
        *(before[0], observed[0], before[1], observed[1], exchange.crosses_toxic, headers, observed_headers)
    )
    values = {name: value for name, value in asdict(both).items() if value != {}}
    return f',"faulted_reply":{json.dumps(values, ensure_ascii=False)}'


def _kept_headers(reader: MessageReader | None, redact: _Redact) -> dict[str, str]:
    if reader is None or reader.head is None:
        return {}
    values: dict[str, str] = {}
    for name, value in reader.headers:
        if canonical := _KEPT_HEADERS.get(name.lower()):
            text = redact.text(value)[:_MAX_HEADER]
            values[canonical] = f"{values[canonical]}, {text}" if canonical in values else text
    return {name: values[name] for name in KEPT_HEADERS if name in values}


def _first_part(start: BodyStart, encoding: str, redact: _Redact) -> tuple[str, bool]:
    text, cut = kept_text(start, encoding, redact.body)
    return text[:MAX_FAULTED_BODY], cut or len(text) > MAX_FAULTED_BODY
