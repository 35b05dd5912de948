"""The stage that each fault of an episode reached: eligible to observed. Pure.

Toxiproxy does not record the requests that a toxic affected. Only the caller's record shows whether a toxic
was *injected*, so for toxics that is the same as *observed*. For its own faults the gateway records in the
exchange what it injected. A fault is *delivered* when the side that it targets shows it: the caller's record
of the try, or the upstream's answer to the request that the fault changed. Where only the gateway keeps a
record, an injected fault counts as delivered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from wirefault.core.caller_errors import error_kind
from wirefault.history.events import ConnectionEnded, Exchange, FaultMet
from wirefault.judging.evidence.record import (
    DeliveredBy,
    Evidence,
    FaultRecord,
    FaultSource,
    TryEvidence,
    Unexplained,
    WhyNotObserved,
)
from wirefault.judging.evidence.signatures import fault_explains, shows_fault, shows_toxic, toxic_explains
from wirefault.judging.evidence.toxics import ToxicTime, ToxicTimes, shown_by_connections
from wirefault.judging.requests import Request, record_key
from wirefault.judging.trace import EpisodeTrace
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.toxiproxy.toxics import toxic


def gather(trace: EpisodeTrace) -> Evidence:
    """Return the evidence of one episode; its events may be in any order."""
    times = ToxicTimes(trace.events)
    toxics = [_toxic_record(trace, times, a.attempt, planned) for a in trace.armed for planned in a.toxics]
    faults = [_fault_record(trace, exchange, fault) for exchange, fault in struck_exchanges(trace)]
    return Evidence((*toxics, *faults), tuple(_unexplained_tries(trace, [*toxics, *faults])))


def struck_exchanges(trace: EpisodeTrace) -> list[tuple[Exchange, FaultMet]]:
    """Return the gateway's faults with their exchanges, in the order of their records."""
    exchanges = sorted(trace.exchanges, key=record_key)
    return [(exchange, fault) for exchange in exchanges for fault in exchange.faults]


def unexplained(request: Request) -> Unexplained:
    """Return the request as an unexplained try."""
    attempt, link, fingerprint, call, try_ = request.try_key
    route = "direct" if request.direct else "proxy"
    return Unexplained(attempt, link, fingerprint, call, try_, request.error or "", route)


def _toxic_record(
    trace: EpisodeTrace, toxic_times: ToxicTimes, attempt: int, planned: PlannedToxic
) -> FaultRecord:
    """Return the record of a toxic with which the attempt was armed, or that was planned for later."""
    times = toxic_times.of(attempt, planned)
    if not times:
        return _not_started(attempt, planned)
    here = (attempt, planned.link)
    crossing = [
        request
        for request in trace.tries
        if request.try_key[:2] == here and not request.direct
        if any(time.meets(request.start, request.start + request.ms / 1000) for time in times)
    ]
    exchanges = [exchange for exchange in trace.exchanges if (exchange.attempt, exchange.link) == here]
    connections = _connections(trace, here, times)
    was_met = bool(crossing or connections) or any(
        time.meets(e.start, e.start + e.ms / 1000) for e in exchanges for time in times
    )
    tries = [_toxic_evidence(planned, request, times) for request in crossing]
    # a request that did not get through is recorded only by its caller, or by the ingress
    by_ingress = (
        None if trace.keeps_record or crossing else shown_by_connections(planned, connections, exchanges)
    )
    observed = any(one.shows for one in tries if one) or by_ingress is True
    unknown = not trace.keeps_record and not crossing and by_ingress is None
    why_not: WhyNotObserved | None = None
    if unknown:
        why_not = "no_record"
    elif None in tries:
        why_not = "unknown_kind"
    elif not observed:
        why_not = "not_seen" if was_met else "not_exercised"
    return replace(
        _not_started(attempt, planned),
        stage="observed" if observed else "met" if was_met else "armed",
        delivered=None if unknown else observed,
        delivered_by="caller" if by_ingress is None else "ingress",
        why_not=why_not,
        tries=tuple(
            one or _try_evidence(request, shows=False, explains=False)
            for one, request in zip(tries, crossing, strict=True)
        ),
    )


def _connections(
    trace: EpisodeTrace, here: tuple[int, str], times: Sequence[ToxicTime]
) -> list[ConnectionEnded]:
    """The intercepted connections of that attempt and link that were open while the toxic was in place."""
    return [
        connection
        for connection in trace.connections
        if (connection.attempt, connection.link) == here
        if any(time.meets(connection.opened, connection.t) for time in times)
    ]


def _not_started(attempt: int, planned: PlannedToxic) -> FaultRecord:
    """Return the record of a toxic that was never armed, because its attempt ended first."""
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
    planned: PlannedToxic, request: Request, times: Iterable[ToxicTime]
) -> TryEvidence | None:
    """The request's evidence of a toxic that was in place at these times; None for an unknown toxic."""
    try:
        known = toxic(planned.kind)
        shows = any(
            shows_toxic(known, planned.stream, request, time)
            for time in times
            if time.meets(request.start, request.start + request.ms / 1000)
        )
    except ValueError:
        return None
    return _try_evidence(request, shows=shows, explains=toxic_explains(known, shows, request))


def _try_evidence(request: Request, *, shows: bool, explains: bool) -> TryEvidence:
    return TryEvidence(*request.try_key[2:], request.error, shows, explains)


def _fault_record(trace: EpisodeTrace, exchange: Exchange, fault: FaultMet) -> FaultRecord:
    """A fault that a request met at the gateway."""
    tries = [request for request in trace.tries if request.exchange is exchange]
    signatures = [fault.injected and shows_fault(request, exchange, fault) for request in tries]
    delivered_by = _delivered_by(fault, tries)
    observed = fault.injected and bool(fault.answered) if delivered_by == "upstream" else any(signatures)
    delivered = fault.injected if delivered_by == "injection" else observed
    source: FaultSource = "budget" if fault.of_budget else "fault" if fault.id else "error"
    return FaultRecord(
        configuration=exchange.configuration if source == "fault" else 0,
        entry=fault.id,
        source=source,
        kind=fault.kind,
        link=exchange.link,
        attempt=exchange.attempt,
        stage="observed" if observed else "injected" if fault.injected else "met",
        delivered=delivered,
        delivered_by=delivered_by,
        why_not=fault.why_not or (None if delivered else "not_seen"),
        detail=fault.detail,
        attributes={key: value for key, value in fault.evidence.items() if key != "kind" or fault.id},
        tries=tuple(
            _try_evidence(request, shows=shows, explains=fault_explains(fault, request))
            for request, shows in zip(tries, signatures, strict=True)
        ),
    )


def _delivered_by(fault: FaultMet, tries: Sequence[Request]) -> DeliveredBy:
    """Return the side whose record shows whether the fault was delivered."""
    if fault.answered is not None:
        return "upstream"
    return "caller" if tries and fault.shows is not None else "injection"


def _unexplained_tries(trace: EpisodeTrace, faults: Iterable[FaultRecord]) -> Iterator[Unexplained]:
    """Return the failed tries that neither a fault nor the service's own refusal explains."""
    explained = {
        (fault.attempt, fault.link, one.fingerprint, one.call, one.try_)
        for fault in faults
        for one in fault.tries
        if one.explains
    }
    for request in trace.tries:
        by_fault = not request.direct and request.try_key in explained
        if request.error is not None and not by_fault and not _refused(request):
            yield unexplained(request)


def _refused(request: Request) -> bool:
    """Whether the service itself refused the request."""
    unavailable = request.exchange is not None and request.exchange.unavailable
    return error_kind(request.error) == "http_4xx" and not unavailable
