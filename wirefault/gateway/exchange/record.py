"""A request in progress as a line of the run's history."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from email.utils import parsedate_to_datetime
from functools import lru_cache
from json.encoder import encode_basestring as _quote
from typing import Any
from urllib.parse import parse_qs

from pydantic_core import from_json

from wirefault.core.caller_errors import sorted_kinds
from wirefault.core.identity import text_digest
from wirefault.dialects.json_values import as_object
from wirefault.dialects.mcp import MCP, McpMessage
from wirefault.faults.plan import MetFault, Plan
from wirefault.gateway.exchange.bodies import (
    MAX_STRUCK,
    SECRET,
    BodyStart,
    kept_text,
    target_without_secrets,
    without_secrets,
)
from wirefault.gateway.exchange.request import RequestInProgress
from wirefault.gateway.exchange.usage import usage_fields
from wirefault.gateway.http1.heads import CONTENT_ENCODING, CREDENTIALS, IDEMPOTENCY_KEY, RETRY_COUNTS
from wirefault.gateway.http1.messages import content_encoding
from wirefault.gateway.lane import LinkListener
from wirefault.history.events import FaultMet, StruckReply
from wirefault.wiring.links import Link

_Text = tuple[str | None, bool]
_NOTHING: _Text = (None, False)


def struck_field(request: RequestInProgress, redact: Callable[[str], str]) -> str:
    """``Exchange.struck`` as JSON, after a comma; empty if nothing struck the request."""
    plan = request.plan
    struck_here = plan is not None and any(met.injected for met in plan.met_faults)
    if not struck_here and not request.crosses_toxic:
        return ""
    observed = _NOTHING
    if request.reply_start is not None and request.status is not None:
        observed = _first_part(request.reply_start, request.reply_block, redact)
        observed = observed[0], observed[1] or not request.reply_done
    natural = _NOTHING
    if request.natural is not None and request.natural.block:
        natural = _first_part(request.natural.start, request.natural.block, redact)
    elif request.natural is None and request.upstream_status is not None:
        natural = observed  # nothing could change this reply: the fault acted on the request, or delayed it
    struck = StruckReply(natural[0], observed[0], natural[1], observed[1], request.crosses_toxic)
    return f',"struck":{json.dumps(asdict(struck), ensure_ascii=False)}'


def _first_part(start: BodyStart, block: bytes, redact: Callable[[str], str]) -> _Text:
    text, cut = kept_text(start, content_encoding(block), redact)
    return text[:MAX_STRUCK], cut or len(text) > MAX_STRUCK


_IN_QUERY = "key="
_OF_MCP = f',"dialect":"{MCP.name}"'
_MIN_SECRET = 8
_NOTABLE_S = 0.01
_LARGEST_ID = 10**40  # Python writes out no number of some thousand digits


def wire_fields(request: RequestInProgress, listener: LinkListener) -> str:
    """Members of ``Exchange``, as JSON, that are not as it has them by default; a comma before each."""
    head, status = request.head, request.status
    # of most requests only the dialect is said, and that is the same for all of their link
    of_mcp = request.may_be_mcp and request.message is not None
    fields = _OF_MCP if of_mcp else listener.dialect_field
    if request.message:
        fields += _of_message(request.message, request)
    if request.request_done and request.whole_at - request.began >= _NOTABLE_S:
        fields += f',"request_ms":{(request.whole_at - request.began) * 1000:.3f}'
    if request.tls:
        fields += f',"tls":"{request.tls}"'
    if listener.link.writes:
        fields += _of_write(request, listener.link)
    if head.noted or _IN_QUERY in head.target:
        fields += _of_client(head.noted, _secret(request))
    if status != request.upstream_status or (status is not None and status >= 300):
        fields += "".join(_of_reply(request))
    if request.shadows:
        shadows = json.dumps([asdict(shadow) for shadow in request.shadows], ensure_ascii=False)
        fields += f',"shadows":{shadows}'
    keeps_bodies = request.run is not None and request.run.keeps_bodies
    if keeps_bodies or request.plan is not None or request.reply_start is not None:
        redact = redaction(request, listener)
        if keeps_bodies:
            fields += "".join(_bodies(request, head.noted.get(CONTENT_ENCODING, ""), redact))
        fields += struck_field(request, redact)
    return fields


def _of_message(method: str, request: RequestInProgress) -> str:
    fields = f',"message":{_quote(method)}'
    if request.tool:
        fields += f',"tool":{_quote(request.tool)}'
        answer = request.server_reply.tool_answer if request.server_reply else ""
        fields += f',"tool_answer":"{answer}"' if answer else ""
    return fields


def _of_write(request: RequestInProgress, link: Link) -> str:
    head = request.head
    if not link.is_write(head.method, head.target, request.tool):
        return ""
    key = head.noted.get(IDEMPOTENCY_KEY) or _key_in_body(request, link)
    return f',"write":true,"key":{_quote(key)}' if key else ',"write":true'


def _of_client(noted: Mapping[bytes, str], secret: str) -> str:
    fields = f',"credential":"{text_digest(secret).hex()}"' if secret else ""
    retried = _retries(noted)
    return f'{fields},"sdk_retry":{retried}' if retried else fields


def _key_in_body(request: RequestInProgress, link: Link) -> str:
    """The field of the JSON body that the wiring names; empty without one, or if the body is too long."""
    start = request.body_start
    if not link.key or start is None or start.cut:
        return ""
    try:
        body = from_json(bytes(start))
    except ValueError:
        return ""
    if request.tool:
        body = McpMessage("request", as_object(body)).arguments
    value = body.get(link.key) if isinstance(body, dict) else None
    if isinstance(value, str):
        return value
    is_id = isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST_ID
    return str(value) if is_id else ""


def _credential(noted: Mapping[bytes, str], target: str) -> str:
    """What the client authorises itself with, without the word for its kind; empty without any."""
    for name in CREDENTIALS:
        if noted.get(name):
            return noted[name].rpartition(" ")[2]
    if _IN_QUERY in target:
        return parse_qs(target.partition("?")[2]).get("key", [""])[0]
    return ""


def _retries(noted: Mapping[bytes, str]) -> int:
    """How often the client's SDK says that it has sent the request before."""
    stainless, amazon = (noted.get(name, "") for name in RETRY_COUNTS)
    if stainless.isdecimal():
        return int(stainless[:4])
    attempt = amazon.partition("attempt=")[2].partition(";")[0].strip()
    return max(int(attempt[:4]) - 1, 0) if attempt.isdecimal() else 0


def _of_reply(request: RequestInProgress) -> Iterator[str]:
    status = request.upstream_status
    if status is not None and status != request.status:
        yield f',"upstream_status":{status}'
    block = request.reply_block
    if request.status is not None and request.status >= 300 and b"etry-" in block.lower():
        seconds = _retry_after(_noted_reply(block), time.time())
        if seconds is not None:
            yield f',"retry_after":{seconds:g}'


def _noted_reply(block: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in block.decode("latin-1").split("\r\n"))
    return {name.lower(): value.strip() for name, _, value in lines}


def _retry_after(headers: dict[str, str], now: float) -> float | None:
    """In seconds, as a number or as a date says them; ``retry-after-ms`` says it more exactly."""
    exact, text = headers.get("retry-after-ms", ""), headers.get("retry-after", "")
    try:
        seconds = float(exact) / 1000 if exact else float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - now
        except (ValueError, TypeError, OverflowError):  # what a server sends may be no date, or none of ours
            return None
    return min(max(seconds, 0.0), 1e9) if seconds == seconds else None


def redaction(request: RequestInProgress, listener: LinkListener) -> Callable[[str], str]:
    """Takes the keys that the lab knows out of a text, and what the client authorised itself with."""
    secret = _secret(request)

    def redact(text: str) -> str:
        text = listener.redact(text)
        return text.replace(secret, SECRET) if len(secret) >= _MIN_SECRET else text

    return redact


def _secret(request: RequestInProgress) -> str:
    head = request.head
    return _credential(head.noted, head.target) if head.noted or _IN_QUERY in head.target else ""


def _bodies(request: RequestInProgress, encoding: str, redact: Callable[[str], str]) -> Iterator[str]:
    text, cut = kept_text(request.body_start or BodyStart(), encoding.lower(), redact)
    yield f',"request_body":{_quote(text)}'
    if cut or not request.request_done:
        yield ',"request_cut":true'
    if request.reply_start is not None and request.status is not None:
        text, cut = kept_text(request.reply_start, content_encoding(request.reply_block), redact)
        yield f',"reply_body":{_quote(text)}'
        if cut or not request.reply_done:
            yield ',"reply_cut":true'


_MAX_EVIDENCE = 32 * 1024


def record_exchange(request: RequestInProgress, listener: LinkListener) -> None:
    """Writes the exchange into its run's history, once."""
    if request.run is None or request.recorded:
        return
    request.recorded = True
    if not request.reply_bytes:
        request.ended = time.perf_counter()
    if request.of_lines:  # the header blocks are the gateway's own: neither side had them
        request.request_bytes -= request.head.size
        request.reply_bytes = max(request.reply_bytes - len(request.reply_block), 0)
    if request.request_done and not request.keyed:
        request.settle_key()
    request.run.write(_exchange_line(request, wire_fields(request, listener), listener))
    if request.charge is not None:
        status = request.upstream_status
        answered = request.forwarded and (status is None or status < 300)
        request.run.settle_charge(request.charge, answered=answered)


def _exchange_line(request: RequestInProgress, more: str, listener: LinkListener) -> str:
    """``wirefault.history.events.Exchange`` as JSON, made by hand since every request needs it.

    What is as usual is left out, as ``dump_line`` does. ``more``: further members, each after a comma.
    """
    head, began = request.head, request.began
    started = time.time() - (time.perf_counter() - began)
    if request.plan is not None and request.plan.met_faults:
        more = f',"faults":{_faults(request.plan, began, redaction(request, listener))}{more}'
    fingerprint = f',"fingerprint":"{request.fingerprint}"' if request.fingerprint else ""
    again = f',"try_":{request.try_}' if request.try_ != 1 else ""
    unusual = "".join(_unusual(request)) if _is_unusual(request) else ""
    return (
        f'{{"start":{started:.6f},{request.attempt_json},"link":"{request.link}","method":{_quote(head.method)}'
        f',"target":{_quote(target_without_secrets(head.target))}{fingerprint}'
        f',"call":{request.call}{again}'
        f',"ms":{(request.ended - began) * 1000:.3f},"status":{request.status or "null"}'
        f',"request_bytes":{request.request_bytes},"reply_bytes":{request.reply_bytes}{unusual}'
        f"{more}{usage_fields(request, request.kept) if request.kept else ''}"
        ',"event":"exchange"}'
    )


def _is_unusual(request: RequestInProgress) -> bool:
    """Whether ``_unusual`` tells anything: of most requests it does not."""
    went_well = request.request_done and request.reply_done and request.forwarded
    failed = request.error is not None or request.unavailable or request.client_left
    named = request.identity == "baggage"
    return not (went_well and named) or failed or bool(request.eligible or request.configuration)


def _unusual(request: RequestInProgress) -> Iterator[str]:
    """The members for how far it came, each after a comma, that are not as ``Exchange`` has them usually."""
    if request.identity != "baggage":
        yield f',"identity":"{request.identity}"'
    if not request.request_done:
        yield ',"request_complete":false'
    if not request.reply_done:
        yield ',"reply_complete":false'
    if not request.forwarded:
        yield ',"forwarded":false'
    if request.eligible:
        yield f',"eligible":{json.dumps(request.eligible, ensure_ascii=False)}'
    if request.configuration:
        yield f',"configuration":{request.configuration}'
    if request.error is not None:
        yield f',"error":{_quote(request.error)}'
    if request.unavailable:
        yield ',"unavailable":true'
    if request.client_left:
        yield ',"client_left":true'


def _faults(plan: Plan, began: float, redact: Callable[[str], str]) -> str:
    # vars, since asdict would copy the evidence, which is written at once
    return json.dumps([vars(fault_met(met, began, redact)) for met in plan.met_faults], ensure_ascii=False)


_causes_in_order = lru_cache(sorted_kinds)  # the faults of a set have few of them


def fault_met(met: MetFault, began: float, redact: Callable[[str], str] = str) -> FaultMet:
    """The record of a fault that a try has met. ``began``: when the request did, in s as ``acted_at``.

    ``redact`` takes the keys that the lab knows out of a text.
    """
    evidence = _readable(met.evidence, redact)
    # the lab's own error keeps the name of what it gave: rate_limit and so on
    kind = str(evidence.get("kind")) if met.fault.name == "http_error" else met.fault.name
    return FaultMet(
        id=met.id,
        kind=kind,
        injected=met.injected,
        why_not=None if met.injected else met.why_not or "cut_short",
        detail=met.detail if not met.injected else "",
        delay_ms=round(met.delay_ms, 3),
        shows=met.shows or None,
        evidence=evidence,
        content=met.content,
        causes=_causes_in_order(frozenset(met.fault.causes)),
        acted_ms=None if met.acted_at is None else round((met.acted_at - began) * 1000, 3),
        answered=met.answered,
    )


def _readable(evidence: Mapping[str, Any], redact: Callable[[str], str]) -> dict[str, Any]:
    """Evidence as a reader of the history gets it: JSON that it can read, of a bounded length, without
    secrets."""
    if not evidence:
        return {}
    try:
        text = json.dumps(evidence, ensure_ascii=False, allow_nan=False, default=str).encode(
            "utf-8", "replace"
        )
        value = from_json(text)
    except (ValueError, RecursionError):  # nested too deep, or a number that no reader takes
        return {"unreadable": sorted(map(str, evidence))}
    if len(text) > _MAX_EVIDENCE:
        return {"too_long": without_secrets(redact(text[:4096].decode("utf-8", "replace")))}
    return {name: _redacted(found, redact) for name, found in value.items()}


def _redacted(value: Any, redact: Callable[[str], str]) -> Any:
    """A value as it was read from JSON, which bounds its depth, with its texts free of secrets."""
    if isinstance(value, str):
        return without_secrets(redact(value))
    if isinstance(value, list):
        return [_redacted(member, redact) for member in value]
    if isinstance(value, dict):
        return {name: _redacted(member, redact) for name, member in value.items()}
    return value
