"""How far each fault of an episode came: eligible, drawn, armed, met, injected, observed. Pure.

Toxiproxy keeps no record of the requests that a toxic touched, so whether a toxic was *injected* is known
from the caller's record alone, which is the same as *observed*. The gateway records in the exchange what its
faults injected. A fault is *delivered* when the side that it was aimed at shows it: the caller's record of
the try, or the upstream's answer to the request that the fault changed. Where nobody but the gateway keeps
a record, it is when it was injected.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from wirefault.core.caller_errors import ERROR_KINDS_IN_ORDER, HTTP_ERRORS, ErrorKind, error_kind
from wirefault.faults.registry import REGISTRY
from wirefault.history.events import Event, Exchange, FaultMet
from wirefault.judging.evidence.record import (
    DeliveredBy,
    Evidence,
    FaultRecord,
    FaultSource,
    TryEvidence,
    Unexplained,
    WhyNotObserved,
)
from wirefault.judging.evidence.toxic_times import ToxicTime, cut_short, shown_by_connections
from wirefault.judging.evidence.tries import EpisodeRecords, RecordedTry, records_of, repeatable_order
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.toxiproxy.toxics import toxic
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


def gather(events: Iterable[Event]) -> Evidence:
    """The evidence of one episode's events, which may come in any order."""
    records = records_of(list(events))
    toxics = [_toxic_record(records, a.attempt, planned) for a in records.armed for planned in a.toxics]
    exchanges = sorted(records.exchanges, key=repeatable_order)
    faults = [_fault_record(records, exchange, met) for exchange in exchanges for met in exchange.faults]
    return Evidence((*toxics, *faults), tuple(_unexplained_tries(records, [*toxics, *faults])))


def _toxic_record(records: EpisodeRecords, attempt: int, planned: PlannedToxic) -> FaultRecord:
    """A toxic that the attempt was armed with, or was to have when its time came."""
    times = records.toxic_times.of(attempt, planned)
    if not times:
        return _not_started(attempt, planned)
    crossing = [
        tried
        for tried in records.crossing(attempt, planned.link)
        if any(time.meets(tried.start, tried.end) for time in times)
    ]
    there = [e for e in records.exchanges if (e.attempt, e.link) == (attempt, planned.link)]
    connections = records.connections_in(attempt, planned.link, times)
    met = bool(crossing or connections) or any(
        time.meets(e.start, e.start + e.ms / 1000) for e in there for time in times
    )
    tries = [_toxic_evidence(planned, tried, times) for tried in crossing]
    # a try that never came through leaves no trace at the gateway: its caller could tell of it, or the front
    by_front = None if records.recorded or crossing else shown_by_connections(planned, connections, there)
    observed = any(tried.shows for tried in tries if tried) or by_front is True
    unknown = not records.recorded and not crossing and by_front is None
    why_not: WhyNotObserved | None = None
    if unknown:
        why_not = "no_record"
    elif None in tries:
        why_not = "unknown_kind"
    elif not observed:
        why_not = "not_seen" if met else "not_exercised"
    return replace(
        _not_started(attempt, planned),
        stage="observed" if observed else "met" if met else "armed",
        delivered=None if unknown else observed,
        delivered_by="caller" if by_front is None else "front",
        why_not=why_not,
        tries=tuple(
            shown or tried.evidence(False, False) for shown, tried in zip(tries, crossing, strict=True)
        ),
    )


def _not_started(attempt: int, planned: PlannedToxic) -> FaultRecord:
    """A toxic whose time did not come before its attempt's end: it was drawn, and never armed."""
    return FaultRecord(
        configuration=planned.configuration,
        entry=planned.entry,
        source="toxic",
        kind=planned.kind,
        link=planned.link,
        attempt=attempt,
        stage="drawn",
        delivered=False,
        delivered_by="caller",
        why_not="not_started",
        stream=planned.stream,
        attributes=dict(planned.attributes),
    )


def _toxic_evidence(
    planned: PlannedToxic, tried: RecordedTry, times: Iterable[ToxicTime]
) -> TryEvidence | None:
    """What the try shows of the toxic, which stood at these times.

    None if this version cannot tell, because it knows no such toxic.
    """
    try:
        known = toxic(planned.kind)
        shows = any(
            _shows_toxic(known, planned.stream, tried, time)
            for time in times
            if time.meets(tried.start, tried.end)
        )
    except ValueError:
        return None
    return tried.evidence(shows, toxic_explains(known, shows, tried))


def _shows_toxic(known: Toxic, stream: str, tried: RecordedTry, time: ToxicTime) -> bool:
    attributes = known.complete(time.attributes)
    seen = replace(tried.as_observed, in_progress=tried.start < time.begun)
    cut = cut_short(seen, left_ms=(time.ending - tried.start) * 1000)
    return any(known.observed(stream, attributes, possible) for possible in (seen, cut))


def _fault_record(records: EpisodeRecords, exchange: Exchange, met: FaultMet) -> FaultRecord:
    """A fault that a try has met at the gateway."""
    tries = [tried for tried in records.tries if tried.exchange is exchange]
    shown = [met.injected and _shows_fault(tried, exchange, met) for tried in tries]
    delivered_by = _delivered_by(met, tries)
    observed = met.injected and bool(met.answered) if delivered_by == "upstream" else any(shown)
    delivered = met.injected if delivered_by == "injection" else observed
    source: FaultSource = "budget" if met.of_budget else "fault" if met.id else "error"
    return FaultRecord(
        configuration=exchange.configuration if source == "fault" else 0,
        entry=met.id,
        source=source,
        kind=met.kind,
        link=exchange.link,
        attempt=exchange.attempt,
        stage="observed" if observed else "injected" if met.injected else "met",
        delivered=delivered,
        delivered_by=delivered_by,
        why_not=met.why_not or (None if delivered else "not_seen"),
        detail=met.detail,
        attributes={key: value for key, value in met.evidence.items() if key != "kind" or met.id},
        tries=tuple(
            tried.evidence(shows, fault_explains(met, tried))
            for tried, shows in zip(tries, shown, strict=True)
        ),
    )


def _delivered_by(met: FaultMet, tries: list[RecordedTry]) -> DeliveredBy:
    """Which side's record tells whether the fault was delivered."""
    if met.answered is not None:
        return "upstream"
    return "caller" if tries and met.shows is not None else "injection"


def _shows_fault(tried: RecordedTry, exchange: Exchange, met: FaultMet) -> bool:
    """Whether the caller's record of the try shows what the gateway did while the caller was there."""
    shows = met.shows or {}
    delay = float(shows.get("delay_ms", 0.0))
    patience = tried.patience_ms or delay
    if not shows or tried.left_before(exchange, met) or tried.ms < ABOUT * min(delay, patience):
        return False
    if delay > patience and tried.lost:
        return True  # it gave up before the rest could come
    if "left" in shows and tried.left_unread:
        return True
    if "lost" in shows:
        return tried.lost and not ("closed" in shows and tried.gave_up)
    return "status" not in shows or tried.got(shows)


def _unexplained_tries(records: EpisodeRecords, faults: Iterable[FaultRecord]) -> Iterator[Unexplained]:
    """Every failed try that neither a fault nor the service's own refusal explains."""
    explained = {
        (fault.attempt, fault.link, tried.fingerprint, tried.call, tried.try_)
        for fault in faults
        for tried in fault.tries
        if tried.explains
    }
    for tried in records.tries:
        by_fault = tried.route == "proxy" and repeatable_order(tried) in explained
        if tried.error is not None and not by_fault and not _refused(tried):
            yield tried.unexplained()


def _refused(tried: RecordedTry) -> bool:
    """Whether the service itself refused the request."""
    unavailable = tried.exchange is not None and tried.exchange.unavailable
    return error_kind(tried.error) == "http_4xx" and not unavailable
