"""A request in progress as a line of the run's history."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from json.encoder import encode_basestring as _quote
from typing import Any

from pydantic_core import from_json

from wirefault.core.caller_errors import sorted_kinds
from wirefault.faults.plan import MetFault, Plan
from wirefault.gateway.connection.bodies import target_without_secrets, without_secrets
from wirefault.gateway.connection.request_in_progress import RequestInProgress
from wirefault.gateway.connection.usage import usage_fields
from wirefault.gateway.connection.wire_fields import redaction, wire_fields
from wirefault.gateway.link_listener import LinkListener
from wirefault.history.events import FaultMet

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
