"""The stage that each fault of an episode reached: eligible to observed. Pure.

Toxiproxy does not record the requests that a toxic affected. Only the caller's record shows whether a toxic
was *injected*, so for toxics that is the same as *observed*. For its own faults the gateway records in the
exchange what it injected. A fault is *delivered* when the side that it targets shows it: the caller's record
of the try, or the upstream's answer to the request that the fault changed. Where only the gateway keeps a
record, an injected fault counts as delivered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from wirefault.core.caller_errors import (
    CANCELLED,
    HTTP_ERRORS,
    ErrorKind,
    error_kind,
    error_name,
)
from wirefault.history.events import (
    ConnectionEnded,
    ConnectionUnanswered,
    Exchange,
    FaultMet,
    SubjectKilled,
    ToolTry,
)
from wirefault.history.judged_events import (
    DeliveredBy,
    FaultRecord,
    FaultSource,
    TryEvidence,
    Unexplained,
    WhyNotObserved,
)
from wirefault.judging.evidence.toxics import (
    ToxicTime,
    ToxicTimes,
    acted,
    cut_short,
    shown_by_connections,
)
from wirefault.judging.requests import Request, record_key
from wirefault.judging.trace import EpisodeTrace
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.toxiproxy.toxics import toxic
from wirefault.toxiproxy.toxics.base import ABOUT, ObservedTry, Toxic

CLOCKS_S = 0.05
"""By how much two processes of a busy machine may time one event apart."""


@dataclass(frozen=True)
class Evidence:
    """The evidence of one episode: its faults, and the failed tries that no fault explains."""

    faults: tuple[FaultRecord, ...] = ()
    unexplained: tuple[Unexplained, ...] = ()


def gather(trace: EpisodeTrace) -> Evidence:
    """Return the evidence of one episode; its events may be in any order."""
    times = ToxicTimes(trace.events)
    toxics = [_toxic_record(trace, times, a.attempt, planned) for a in trace.armed for planned in a.toxics]
    faults = [_fault_record(trace, exchange, fault) for exchange, fault in faulted_exchanges(trace)]
    return Evidence((*toxics, *faults), tuple(_unexplained_tries(trace, [*toxics, *faults])))


def faulted_exchanges(trace: EpisodeTrace) -> list[tuple[Exchange, FaultMet]]:
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
    """Return the record of a toxic that was armed at the attempt's start or planned for later."""
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
    unanswered = [each for each in trace.all(ConnectionUnanswered) if (each.attempt, each.link) == here]
    arrived = [(e.start, e.start + e.ms / 1000) for e in exchanges]
    arrived += [(each.t - each.ms / 1000, each.t) for each in unanswered]
    was_met = bool(crossing or connections) or any(time.meets(*span) for span in arrived for time in times)
    tries = [_toxic_evidence(planned, request, times) for request in crossing]
    # a request that did not get through is recorded only by its caller, or by the ingress
    by_ingress = (
        None if trace.keeps_record or crossing else shown_by_connections(planned, connections, exchanges)
    )
    observed = any(one.shows for one in tries if one) or by_ingress is True
    is_opaque = not (trace.keeps_record or crossing or observed)
    must_have_acted = is_opaque and acted(planned, times, exchanges, unanswered)
    unknown = is_opaque and by_ingress is None and not must_have_acted
    why_not: WhyNotObserved | None = None
    if unknown:
        why_not = "no_record"
    elif None in tries:
        why_not = "unknown_kind"
    elif not (observed or must_have_acted):
        why_not = "not_seen" if was_met else "not_exercised"
    return structs.replace(
        _not_started(attempt, planned),
        stage="observed" if observed else "injected" if must_have_acted else "met" if was_met else "armed",
        delivered=None if unknown else observed or must_have_acted,
        delivered_by="injection" if must_have_acted else "caller" if by_ingress is None else "ingress",
        why_not=why_not,
        tries=tuple(
            one or _try_evidence(request, shows=False, explains=False)
            for one, request in zip(tries, crossing, strict=True)
        ),
    )


def _connections(
    trace: EpisodeTrace, here: tuple[int, str], times: Sequence[ToxicTime]
) -> list[ConnectionEnded]:
    """Return the link's intercepted connections that were open while the toxic was in place."""
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
    """Return the try as evidence of a toxic that was in place at these times; None for an unknown toxic."""
    try:
        known = toxic(planned.kind)
        shows = any(
            _shows_toxic(known, planned.stream, request, time)
            for time in times
            if time.meets(request.start, request.start + request.ms / 1000)
        )
    except ValueError:
        return None
    return _try_evidence(request, shows=shows, explains=_toxic_explains(known, shows, request))


def _try_evidence(request: Request, *, shows: bool, explains: bool) -> TryEvidence:
    return TryEvidence(*request.try_key[2:], request.error, shows, explains)


def _fault_record(trace: EpisodeTrace, exchange: Exchange, fault: FaultMet) -> FaultRecord:
    """Return the record of a fault that a request met at the gateway."""
    tries = [request for request in trace.tries if request.exchange is exchange]
    signatures = [fault.injected and _shows_fault(request, exchange, fault) for request in tries]
    delivered_by = _delivered_by(fault, tries)
    observed = fault.injected and bool(fault.answered) if delivered_by == "upstream" else any(signatures)
    observed = observed or (fault.injected and _was_killed(trace, exchange, fault))
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
            _try_evidence(request, shows=shows, explains=_fault_explains(fault, request))
            for request, shows in zip(tries, signatures, strict=True)
        ),
        client_gave_up=fault.injected and 0 < exchange.left_ms < fault.delay_ms,
    )


def _was_killed(trace: EpisodeTrace, exchange: Exchange, fault: FaultMet) -> bool:
    """Return whether the runner recorded that the subject is dead by that fault."""
    here = exchange.attempt, exchange.link, fault.id
    kills = trace.all(SubjectKilled)
    return any(each.dead and (each.attempt, each.link, each.entry) == here for each in kills)


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
        if request.error not in (None, CANCELLED) and not by_fault and not _refused(request):
            yield unexplained(request)


def _refused(request: Request) -> bool:
    """Return whether the service itself refused the request."""
    unavailable = request.exchange is not None and request.exchange.unavailable
    return error_kind(request.error) == "http_4xx" and not unavailable


# signatures: whether a request with a caller's record shows a fault, and whether the fault made it fail


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


def _shows_toxic(known: Toxic, stream: str, request: Request, time: ToxicTime) -> bool:
    """Return whether the request has the signature of the toxic, which was in place at that time."""
    attributes = known.complete(time.attributes)
    observed = replace(observed_try(request), in_progress=request.start < time.begun)
    cut = cut_short(observed, left_ms=(time.ending - request.start) * 1000)
    return any(known.observed(stream, attributes, possible) for possible in (observed, cut))


def _toxic_explains(known: Toxic, shows: bool, request: Request) -> bool:
    """Return whether the toxic made the request fail. ``shows``: the request has the toxic's signature."""
    if not shows or error_kind(request.error) not in known.can_cause:
        return False
    outside_ms = observed_try(request).outside_gateway_ms
    return not known.only_delays or _reaches_limit(request, outside_ms + _fault_delay_ms(request))


def _shows_fault(request: Request, exchange: Exchange, fault: FaultMet) -> bool:
    """Return whether the caller's record shows the fault; False if the caller left before the fault acted."""
    shows = fault.shows or {}
    delay = float(shows.get("delay_ms", 0.0))
    patience = _patience_ms(request) or delay
    if not shows or _left_before(request, exchange, fault) or request.ms < ABOUT * min(delay, patience):
        return False
    no_reply = _got_no_reply(request)
    if delay > patience and no_reply:
        return True  # the client gave up before the delay was over
    if "left" in shows and _left_stream(request):
        return True
    if "lost" in shows:
        return no_reply and not ("closed" in shows and error_kind(request.error) == "timeout")
    return "status" not in shows or _got(request, shows)


def _fault_explains(fault: FaultMet, request: Request) -> bool:
    """Return whether the gateway's fault made the request fail."""
    kind, exchange = error_kind(request.error), request.exchange
    if kind is None or exchange is None or not fault.injected or kind not in fault.causes:
        return False
    if _left_before(request, exchange, fault):
        return False
    if fault.shows is None:
        return _upstream_failed_by_it(fault, kind, exchange, request)
    return _reply_failed_by_it(fault.shows, kind, request)


def _reply_failed_by_it(shows: Mapping[str, Any], kind: ErrorKind, request: Request) -> bool:
    """Return whether the fault's change to the reply, or its delay, made the request fail."""
    if kind in HTTP_ERRORS:
        return _got(request, shows)
    if kind == "timeout":
        waits = "lost" in shows and "closed" not in shows
        return waits or ("delay_ms" in shows and _reaches_limit(request, _fault_delay_ms(request)))
    return "lost" in shows or (kind == "bad_reply" and _got(request, shows))


def _upstream_failed_by_it(fault: FaultMet, kind: ErrorKind, exchange: Exchange, request: Request) -> bool:
    """Return whether the upstream failed because of the changed request, or of its last copy.

    A copy explains nothing if the first request failed already.
    """
    statuses = fault.evidence.get("statuses")
    if isinstance(statuses, list) and not (statuses and error_kind(f"http_{statuses[0]}") is None):
        return False
    if kind in HTTP_ERRORS:
        answered = fault.answered is not False and exchange.error is None
        return answered and exchange.status == _caller_status(request)
    return True


def _reaches_limit(request: Request, added_ms: float) -> bool:
    """Return whether the added delay made the request last until its client gave up.

    The upstream's own time is added if its reply was complete. If that time alone is as long as the request,
    the delay is not the reason.
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
    """Return whether the request failed without a valid reply. A reply of any HTTP status is valid."""
    return request.error is not None and not request.error.startswith("http_")


def _got(request: Request, reply: Mapping[str, Any]) -> bool:
    """Return whether the caller got ``reply``: its status, and its digest if the caller recorded one."""
    digest = _digest(request)
    return _caller_status(request) == reply.get("status", 0) and digest in ("", reply.get("digest", ""))


def _left_stream(request: Request) -> bool:
    """Return whether the caller left an event stream before its end: no error, and no body recorded."""
    return _caller_status(request) is not None and request.error is None and not _digest(request)


def _left_before(request: Request, exchange: Exchange, fault: FaultMet) -> bool:
    """Return whether the client left before the fault acted.

    A connection that the other side ended is over when the fault acts, by the clocks of two processes.
    """
    if fault.acted_ms is None:
        return False
    ended_by_other = error_kind(request.error) in ("closed", "reset")
    acted_s = exchange.start + fault.acted_ms / 1000 - (CLOCKS_S if ended_by_other else 0.0)
    return request.start + request.ms / 1000 < acted_s


def _patience_ms(request: Request) -> float:
    """Return how long the client waited if it gave up, else its configured timeout (0: unknown)."""
    if error_kind(request.error) == "timeout":
        return request.ms
    return request.caller_record.timeout_ms if isinstance(request.caller_record, ToolTry) else 0.0


def _fault_delay_ms(request: Request) -> float:
    """Return the delay that the gateway's faults added, as measured."""
    return sum(float(fault.shows.get("delay_ms", 0.0)) for fault in request.injected if fault.shows)


def _gateway_ms(request: Request) -> float:
    """Return how long the gateway had the request while the caller waited."""
    if request.exchange is None:
        return 0.0
    begun_ms = max(request.exchange.start - request.start, 0.0) * 1000
    return min(request.exchange.ms, max(request.ms - begun_ms, 0.0))


def _had_whole_request(request: Request, exchange: Exchange) -> bool:
    """Return whether the gateway got the whole request while the caller waited; a toxic may delay a part."""
    whole_at = exchange.start + exchange.request_ms / 1000
    return exchange.request_complete and whole_at <= request.start + request.ms / 1000
