"""Writes a finished exchange into its run's history."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any

from pydantic_core import from_json

from wirefault.core.caller_errors import sorted_kinds
from wirefault.core.identity import TRACEPARENT_HEADER
from wirefault.core.redaction import Redaction
from wirefault.dialects.fate import fate_of
from wirefault.dialects.http import SAFE_METHODS
from wirefault.dialects.json_values import as_object
from wirefault.dialects.mcp import MCP, SESSION_HEADER, McpMessage
from wirefault.faults.plan import MetFault
from wirefault.gateway.exchange.bodies import MAX_FAULTED_BODY, BodyStart, kept_text
from wirefault.gateway.exchange.carrier import MessageReader
from wirefault.gateway.exchange.decision import is_write
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
from wirefault.history import events
from wirefault.history.events import FaultedReply, FaultMet, LateRequest
from wirefault.history.gateway_events import KEPT_HEADERS
from wirefault.wiring.links import Link

_MAX_EVIDENCE = 32 * 1024
_MAX_HEADER, _MAX_CLIENT = 200, 80
_KEPT_HEADERS = {name.lower(): name for name in KEPT_HEADERS}
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
    run.record(_exchange_event(exchange))
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
    wrote = is_write(exchange) and exchange.forwarded and fate_of(exchange.reply.upstream_status) != "refused"
    late = named.episode, named.number, wrote
    run.record(LateRequest(time.time(), during.episode, during.number, listener.name, *late))


def _exchange_event(exchange: Exchange) -> events.Exchange:
    """Return the record of the exchange. Fields with their usual values are not computed."""
    head, began, reply, origin = exchange.head, exchange.began, exchange.reply, exchange.origin
    episode, attempt = origin.episode, origin.attempt_number
    if origin.late_of is not None:
        episode, attempt = origin.late_of.episode, origin.late_of.number
    target = exchange.listener.redaction.target(head.target)
    more = _wire_fields(exchange, names_secret=target != head.target)
    if _is_unusual(exchange):
        more |= _unusual_fields(exchange)
    if reply.pieces and exchange.is_model:
        more |= usage_fields(exchange, reply.pieces)
    return events.Exchange(
        start=round(time.time() - (time.perf_counter() - began), 6),
        episode=episode,
        attempt=attempt,
        link=exchange.listener.name,
        method=head.method,
        target=target,
        call=exchange.call,
        ms=round((exchange.ended - began) * 1000, 3),
        status=reply.status or None,
        request_bytes=exchange.request_bytes,
        reply_bytes=reply.size,
        fingerprint=exchange.fingerprint,
        try_=exchange.try_,
        identity=origin.identity,
        request_complete=exchange.request_done,
        reply_complete=reply.done,
        forwarded=exchange.forwarded,
        **more,
    )


def _is_unusual(exchange: Exchange) -> bool:
    """Whether ``_unusual_fields`` has any: for most requests it has none."""
    failed = exchange.error is not None or exchange.unavailable or exchange.client_left
    decision = exchange.decision
    eligible = decision is not None and (decision.eligible or decision.replay or decision.left_to_requests)
    return failed or bool(eligible or exchange.configuration)


def _unusual_fields(exchange: Exchange) -> dict[str, Any]:
    """The fields about how far the exchange got that differ from their defaults."""
    fields: dict[str, Any] = {
        "configuration": exchange.configuration,
        "error": exchange.error,
        "unavailable": exchange.unavailable,
        "client_left": exchange.client_left,
    }
    if exchange.decision is not None:
        decision = exchange.decision
        fields |= {"eligible": decision.eligible, "replay": decision.replay}
        fields["left_to_requests"] = decision.left_to_requests
    if exchange.outage:
        fields["outage"] = _redact_in(exchange).text(exchange.outage)
    if exchange.client_left and exchange.left_at:
        fields["left_ms"] = round((exchange.left_at - exchange.began) * 1000, 3)
    return fields


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


def _wire_fields(exchange: Exchange, *, names_secret: bool) -> dict[str, Any]:
    """The fields about the wire and its faults that differ from their defaults.

    ``names_secret``: its target contains a secret, which may be the client's credential.
    """
    head, reply, listener, run = exchange.head, exchange.reply, exchange.listener, exchange.origin.run
    # most requests have only the dialect, which is the same for their whole link
    fields: dict[str, Any] = {"dialect": listener.recorded_dialect}
    if listener.shows_mcp and exchange.message is not None:
        fields["dialect"] = MCP.name
    elif exchange.is_model:  # one host may speak several APIs
        fields["dialect"] = exchange.dialect
    if exchange.message:
        fields |= _message_fields(exchange.message, exchange)
    request_s = exchange.request_ended - exchange.began
    if exchange.request_done and request_s >= _NOTABLE_S:
        fields["request_ms"] = round(request_s * 1000, 3)
    if exchange.opened is not None:
        fields["opened_ms"] = round((exchange.began - exchange.opened) * 1000, 3)
    if exchange.tls:
        fields["tls"] = exchange.tls
    if listener.link.writes or listener.link.key or head.noted:
        fields |= _write_fields(exchange, listener.link)
    if listener.is_function and exchange.is_marked_write:
        fields["write"] = True
    if head.trace_at and exchange.origin.identity != "baggage":
        fields |= _trace_field(head)
    if (names_secret or head.noted) and (secret := client_credential(head)):
        fields["credential"] = listener.redaction.digest(secret)
    if head.noted:
        fields |= {"sdk_retry": sdk_retries(head.noted) or None, "operation": head.noted.get(OPERATION, "")}
    if reply.status != reply.upstream_status or (reply.status is not None and reply.status >= 300):
        fields |= _reply_fields(exchange)
    if reply.websocket is not None:
        fields |= _websocket_fields(reply.websocket)
    if exchange.decision is not None and exchange.decision.shadows:
        fields["shadows"] = exchange.decision.shadows
    keeps_bodies = run is not None and run.keeps_bodies
    if keeps_bodies or exchange.plan is not None or reply.body_start is not None:
        redact = _redact_in(exchange)
        if exchange.plan is not None:
            fields["client"] = redact.text(read_header(head, "user-agent")[:_MAX_CLIENT])
            fields["faults"] = [
                fault_met(fault, exchange.began, redact) for fault in exchange.plan.met_faults
            ]
        if keeps_bodies:
            fields |= _body_fields(exchange, head.noted.get(CONTENT_ENCODING, ""), redact)
        fields["faulted_reply"] = _faulted_reply(exchange, redact)
    return fields


def _websocket_fields(session: WebSocketSession) -> dict[str, Any]:
    fields: dict[str, Any] = {f"{side}_messages": session.count(side) for side in SIDES}
    fields |= {f"{side}_close": code for side, code in session.close_codes.items()}
    return fields | {"unread_messages": session.unreadable}


def _message_fields(method: str, exchange: Exchange) -> dict[str, Any]:
    fields = {"message": method}
    if session := read_header(exchange.head, SESSION_HEADER):
        fields["session"] = exchange.listener.redaction.digest(session)
    if exchange.tool:
        answer = exchange.reply.server_reply.tool_answer if exchange.reply.server_reply else ""
        fields |= {"tool": exchange.tool, "tool_answer": answer}
    return fields


def _write_fields(exchange: Exchange, link: Link) -> dict[str, Any]:
    head = exchange.head
    write = link.is_write(head.method, head.target, exchange.tool)
    if not write and head.method in SAFE_METHODS:
        return {}
    keys = (head.noted.get(name) for name in IDEMPOTENCY_KEYS)
    return {"write": write, "key": next(filter(None, keys), "") or _key_in_body(exchange, link)}


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


def _trace_field(head: RequestHead) -> dict[str, Any]:
    """``traceparent`` as W3C defines it, version 00; empty for anything else, which may be a secret."""
    value = read_header(head, TRACEPARENT_HEADER)
    return {"traceparent": value} if _TRACEPARENT.fullmatch(value) else {}


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


def _reply_fields(exchange: Exchange) -> dict[str, Any]:
    reply, fields = exchange.reply, dict[str, Any]()
    if reply.upstream_status is not None and reply.upstream_status != reply.status:
        fields["upstream_status"] = reply.upstream_status
    is_refused = reply.status is not None and reply.status >= 300
    if is_refused and reply.reader is not None and not exchange.listener.is_lines:
        headers = {name.lower(): value for name, value in reply.reader.message.headers}
        fields["retry_after"] = _retry_after(headers, time.time())
    return fields


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


def _body_fields(exchange: Exchange, encoding: str, redact: _Redact) -> dict[str, Any]:
    text, cut = kept_text(exchange.body_start or BodyStart(), encoding.lower(), redact.body)
    fields = {"request_body": text, "request_cut": cut or not exchange.request_done}
    reply = exchange.reply
    if reply.body_start is not None and reply.status is not None:
        text, cut = kept_text(reply.body_start, reply.encoding, redact.body)
        fields |= {"reply_body": text, "reply_cut": cut or not reply.done}
    return fields


def _faulted_reply(exchange: Exchange, redact: _Redact) -> FaultedReply | None:
    """Return a reply before and after a fault or a toxic changed it; None without."""
    plan, reply = exchange.plan, exchange.reply
    injected = plan is not None and any(fault.injected for fault in plan.met_faults)
    if not injected and not exchange.crosses_toxic:
        return None
    observed: tuple[str | None, bool] = (None, False)
    if reply.body_start is not None and reply.status is not None:
        text, cut = _first_part(reply.body_start, reply.encoding, redact)
        observed = text, cut or not reply.done
    reader = None if observed[0] is None or exchange.listener.is_lines else reply.reader
    observed_headers = _kept_headers(reader, redact)
    before: tuple[str | None, bool] = (None, False)
    headers: dict[str, str] = {}
    if reply.upstream is not None and reply.upstream.reader is not None:
        before = _first_part(reply.upstream.body_start, reply.upstream.reader.encoding, redact)
        headers = _kept_headers(reply.upstream.reader, redact)
    elif reply.upstream is None and reply.upstream_status is not None:
        before, headers = observed, observed_headers  # the fault acted on the request, or only delayed it
    return FaultedReply(
        *(before[0], observed[0], before[1], observed[1], exchange.crosses_toxic, headers, observed_headers)
    )


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
