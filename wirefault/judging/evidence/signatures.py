"""Decide whether a request has a fault's signature, and whether that fault made it fail. Pure.

The requests here have a caller's record.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from wirefault.core.caller_errors import ERROR_KINDS_IN_ORDER, HTTP_ERRORS, ErrorKind, error_kind, error_name
from wirefault.faults.registry import REGISTRY
from wirefault.history.events import Exchange, FaultMet, ToolTry
from wirefault.judging.evidence.toxics import ToxicTime, cut_short
from wirefault.judging.requests import Request
from wirefault.toxiproxy.toxics.base import ABOUT, ObservedTry, Toxic


def observed_try(request: Request) -> ObservedTry:
    """Return the request in the form that the signatures of toxics expect."""
    record, exchange = request.caller_record, request.exchange
    no_reply = _got_no_reply(request)
    return ObservedTry(
        client_ms=request.ms,
        client_failed=no_reply,
        client_error=error_name(request.error) if no_reply else None,
        client_timeout_ms=_patience_ms(request),
        gateway_ms=_gateway_ms(request),
        gateway_complete_request=bool(exchange and _had_whole_request(request, exchange)),
        gateway_complete_reply=bool(exchange and exchange.reply_complete),
        reply_bytes=exchange.reply_bytes if exchange else 0,
        client_waited=isinstance(record, ToolTry) and record.refused > 0,
        gateway_client_left=bool(exchange and exchange.client_left),
        tls=exchange.tls if exchange else request.tls,
    )


def shows_toxic(toxic: Toxic, stream: str, request: Request, time: ToxicTime) -> bool:
    """Whether the request has the signature of the toxic, which was in place at that time."""
    attributes = toxic.complete(time.attributes)
    observed = replace(observed_try(request), in_progress=request.start < time.begun)
    cut = cut_short(observed, left_ms=(time.ending - request.start) * 1000)
    return any(toxic.observed(stream, attributes, possible) for possible in (observed, cut))


def toxic_explains(toxic: Toxic, shows: bool, request: Request) -> bool:
    """Whether the toxic is why the request failed. ``shows``: it has the toxic's signature."""
    if not shows or error_kind(request.error) not in toxic.can_cause:
        return False
    outside_ms = observed_try(request).outside_gateway_ms
    return not toxic.only_delays or _reaches_limit(request, outside_ms + _fault_delay_ms(request))


def shows_fault(request: Request, exchange: Exchange, fault: FaultMet) -> bool:
    """Whether the caller's record shows what the gateway did while the caller was there."""
    shows = fault.shows or {}
    delay = float(shows.get("delay_ms", 0.0))
    patience = _patience_ms(request) or delay
    if not shows or _left_before(request, exchange, fault) or request.ms < ABOUT * min(delay, patience):
        return False
    no_reply = _got_no_reply(request)
    if delay > patience and no_reply:
        return True  # it gave up before the rest could come
    if "left" in shows and _left_stream(request):
        return True
    if "lost" in shows:
        return no_reply and not ("closed" in shows and error_kind(request.error) == "timeout")
    return "status" not in shows or _got(request, shows)


def fault_explains(fault: FaultMet, request: Request) -> bool:
    """Whether the fault of the gateway is why the request failed."""
    kind, exchange = error_kind(request.error), request.exchange
    if kind is None or exchange is None or not fault.injected or kind not in _causes(fault):
        return False
    if _left_before(request, exchange, fault):
        return False
    if fault.shows is None:
        return _upstream_failed_by_it(fault, kind, exchange, request)
    return _reply_failed_by_it(fault.shows, kind, request)


def _causes(fault: FaultMet) -> Collection[ErrorKind]:
    if fault.causes is not None:
        return fault.causes
    # an earlier version wrote this history: the fault's class has them, if it is known here
    return REGISTRY[fault.kind].can_cause if fault.kind in REGISTRY else ERROR_KINDS_IN_ORDER


def _reply_failed_by_it(shows: Mapping[str, Any], kind: ErrorKind, request: Request) -> bool:
    """Decide by the fault's change to the reply, or by its delay."""
    if kind in HTTP_ERRORS:
        return _got(request, shows)
    if kind == "timeout":
        waits = "lost" in shows and "closed" not in shows
        return waits or ("delay_ms" in shows and _reaches_limit(request, _fault_delay_ms(request)))
    return "lost" in shows or (kind == "bad_reply" and _got(request, shows))


def _upstream_failed_by_it(fault: FaultMet, kind: ErrorKind, exchange: Exchange, request: Request) -> bool:
    """Decide by the upstream's answer to the changed request, or to its last copy.

    A copy does not explain an answer that the first request got, too.
    """
    statuses = fault.evidence.get("statuses")
    if isinstance(statuses, list) and not (statuses and error_kind(f"http_{statuses[0]}") is None):
        return False
    if kind in HTTP_ERRORS:
        answered = fault.answered is not False and exchange.error is None
        return answered and exchange.status == _caller_status(request)
    return True


def _reaches_limit(request: Request, added_ms: float) -> bool:
    """Whether a delay that long made the request last until its client gave up.

    The upstream's own time counts with it if its reply is known to have come in time.
    """
    exchange = request.exchange
    replied = exchange is not None and exchange.reply_complete
    own_ms = max(exchange.ms - _fault_delay_ms(request), 0.0) if exchange and replied else 0.0
    return own_ms < request.ms and own_ms + added_ms >= ABOUT * request.ms


def _caller_status(request: Request) -> int | None:
    return request.caller_record.status if request.caller_record else None


def _digest(request: Request) -> str:
    return request.caller_record.reply_digest if request.caller_record else ""


def _got_no_reply(request: Request) -> bool:
    """Whether no valid reply came; one of any HTTP status is valid."""
    return request.error is not None and not request.error.startswith("http_")


def _got(request: Request, reply: Mapping[str, Any]) -> bool:
    """Whether the caller got the reply of that ``status``, and of that ``digest`` if it recorded one."""
    digest = _digest(request)
    return _caller_status(request) == reply.get("status", 0) and digest in ("", reply.get("digest", ""))


def _left_stream(request: Request) -> bool:
    """Whether the caller left an event stream before its end: no error, and no body recorded."""
    return _caller_status(request) is not None and request.error is None and not _digest(request)


def _left_before(request: Request, exchange: Exchange, fault: FaultMet) -> bool:
    """Whether the client had left when the fault began to act."""
    acted_s = exchange.start + (fault.acted_ms or 0.0) / 1000
    return fault.acted_ms is not None and request.start + request.ms / 1000 < acted_s


def _patience_ms(request: Request) -> float:
    """Return how long the client waited if it gave up, else its configured timeout (0: unknown)."""
    if error_kind(request.error) == "timeout":
        return request.ms
    return request.caller_record.timeout_ms if isinstance(request.caller_record, ToolTry) else 0.0


def _fault_delay_ms(request: Request) -> float:
    """Return the measured delay by the gateway's faults."""
    return sum(float(fault.shows.get("delay_ms", 0.0)) for fault in request.injected if fault.shows)


def _gateway_ms(request: Request) -> float:
    """Return how long the gateway had the request while the caller waited."""
    if request.exchange is None:
        return 0.0
    begun_ms = max(request.exchange.start - request.start, 0.0) * 1000
    return min(request.exchange.ms, max(request.ms - begun_ms, 0.0))


def _had_whole_request(request: Request, exchange: Exchange) -> bool:
    """Return whether the gateway had all of it while the caller waited: a toxic may delay the rest."""
    whole_at = exchange.start + exchange.request_ms / 1000
    return exchange.request_complete and whole_at <= request.start + request.ms / 1000
