"""Which fault explains the failure of a try: one that can cause such an error, and did so here. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from wirefault.core.caller_errors import ERROR_KINDS_IN_ORDER, HTTP_ERRORS, ErrorKind, error_kind
from wirefault.faults.registry import REGISTRY
from wirefault.history.events import Exchange, FaultMet
from wirefault.judging.evidence.tries import RecordedTry
from wirefault.toxiproxy.toxics.base import Toxic
from wirefault.toxiproxy.toxics.observed import ABOUT


def toxic_explains(toxic: Toxic, shows: bool, tried: RecordedTry) -> bool:
    """Whether the toxic is why the try failed. ``shows``: the try shows the toxic's signature."""
    if not shows or error_kind(tried.error) not in toxic.can_cause:
        return False
    outside_ms = tried.as_observed.outside_gateway_ms
    return not toxic.only_delays or _reaches_limit(tried, outside_ms + tried.fault_delay_ms)


def fault_explains(met: FaultMet, tried: RecordedTry) -> bool:
    """Whether the fault of the gateway is why the try failed."""
    kind, exchange = error_kind(tried.error), tried.exchange
    if kind is None or exchange is None or not met.injected or kind not in _causes(met):
        return False
    if tried.left_before(exchange, met):
        return False
    if met.shows is None:
        return _upstream_failed_by_it(met, kind, exchange, tried)
    return _reply_failed_by_it(met.shows, kind, tried)


def _causes(met: FaultMet) -> Collection[ErrorKind]:
    if met.causes is not None:
        return met.causes
    # an earlier version wrote this history: the fault's class tells, if it is known here
    return REGISTRY[met.kind].can_cause if met.kind in REGISTRY else ERROR_KINDS_IN_ORDER


def _reply_failed_by_it(shows: Mapping[str, Any], kind: ErrorKind, tried: RecordedTry) -> bool:
    """By what the fault did to the reply, or by how long it took."""
    if kind in HTTP_ERRORS:
        return tried.got(shows)
    if kind == "timeout":
        waits = "lost" in shows and "closed" not in shows
        return waits or ("delay_ms" in shows and _reaches_limit(tried, tried.fault_delay_ms))
    return "lost" in shows or (kind == "bad_reply" and tried.got(shows))


def _upstream_failed_by_it(met: FaultMet, kind: ErrorKind, exchange: Exchange, tried: RecordedTry) -> bool:
    """By what the upstream made of the changed request, or of the last copy of it.

    A copy explains nothing that the upstream answered to the first one too.
    """
    statuses = met.evidence.get("statuses")
    if isinstance(statuses, list) and not (statuses and error_kind(f"http_{statuses[0]}") is None):
        return False
    if kind in HTTP_ERRORS:
        answered = met.answered is not False and exchange.error is None
        return answered and exchange.status == tried.status
    return True


def _reaches_limit(tried: RecordedTry, added_ms: float) -> bool:
    """Whether so long a delay made the try last until its client gave up.

    The upstream's own time counts with it where its reply is known to have come, and to have come in time.
    """
    exchange = tried.exchange
    own_ms = max(exchange.ms - tried.fault_delay_ms, 0.0) if exchange and exchange.reply_complete else 0.0
    return own_ms < tried.ms and own_ms + added_ms >= ABOUT * tried.ms
