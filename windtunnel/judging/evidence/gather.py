"""How far each fault of an episode came: eligible, drawn, armed, met, injected, observed. Pure.

Toxiproxy keeps no record of the requests that a toxic touched, so whether a toxic was *injected* is known
from the caller's record alone, which is the same as *observed*. The gateway records in the exchange what its
faults injected. A fault is *delivered* when it was observed by a caller that kept a record of the try, or,
where none did, when it was injected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from windtunnel.history.events import Event, Exchange, FaultMet
from windtunnel.judging.evidence.ends import ToxicEnd, cut_short
from windtunnel.judging.evidence.record import Evidence, FaultRecord, Unexplained, WhyNotObserved
from windtunnel.judging.evidence.tries import EpisodeRecords, RecordedTry, records_of, repeatable_order
from windtunnel.toxiproxy.planned import PlannedToxic
from windtunnel.toxiproxy.toxics import toxic


def gather(events: Iterable[Event]) -> Evidence:
    """The evidence of one episode's events, which may come in any order."""
    records = records_of(list(events))
    toxics = [_toxic_record(records, a.attempt, planned) for a in records.armed for planned in a.toxics]
    exchanges = sorted(records.exchanges, key=repeatable_order)
    faults = [_fault_record(records, exchange, met) for exchange in exchanges for met in exchange.faults]
    return Evidence((*toxics, *faults), tuple(_unexplained_tries(records)))


def _toxic_record(records: EpisodeRecords, attempt: int, planned: PlannedToxic) -> FaultRecord:
    """A toxic that the attempt was armed with."""
    end = records.ends.of(attempt, planned)
    crossing = [tried for tried in records.crossing(attempt, planned.link) if tried.start < end.gone]
    there = [e for e in records.exchanges if (e.attempt, e.link) == (attempt, planned.link)]
    met = bool(crossing) or any(exchange.start < end.gone for exchange in there)
    shown = [_shows_toxic(planned, tried, end) for tried in crossing]
    observed = any(shown)
    why_not: WhyNotObserved | None = None
    if None in shown:
        why_not = "unknown_kind"
    elif not observed:
        why_not = "not_seen" if met else "not_exercised"
    return FaultRecord(
        configuration=planned.configuration,
        entry=planned.entry,
        source="toxic",
        kind=planned.kind,
        link=planned.link,
        attempt=attempt,
        stage="observed" if observed else "met" if met else "armed",
        delivered=observed,
        why_not=why_not,
        stream=planned.stream,
        attributes=dict(planned.attributes),
        tries=tuple(tried.evidence(bool(shows)) for tried, shows in zip(crossing, shown, strict=True)),
    )


def _shows_toxic(planned: PlannedToxic, tried: RecordedTry, end: ToxicEnd) -> bool | None:
    """Whether the try shows the toxic, which ended then.

    None if this version cannot tell, because it knows no such toxic.
    """
    try:
        known = toxic(planned.kind)
        attributes = known.complete(planned.attributes)
    except ValueError:
        return None
    if tried.start >= end.gone:
        return False
    seen = tried.as_observed
    cut = cut_short(seen, left_ms=(end.begun - tried.start) * 1000)
    return any(known.observed(planned.stream, attributes, possible) for possible in (seen, cut))


def _fault_record(records: EpisodeRecords, exchange: Exchange, met: FaultMet) -> FaultRecord:
    """A fault that a try has met at the gateway."""
    tries = [tried for tried in records.tries if tried.exchange is exchange]
    shown = [met.injected and _shows_fault(tried, met) for tried in tries]
    observed = any(shown)
    visible = met.shows is not None
    delivered = observed if tries and visible else met.injected
    return FaultRecord(
        configuration=exchange.configuration if met.id else 0,
        entry=met.id,
        source="fault" if met.id else "error",
        kind=met.kind,
        link=exchange.link,
        attempt=exchange.attempt,
        stage="observed" if observed else "injected" if met.injected else "met",
        delivered=delivered,
        why_not=met.why_not or (None if delivered else "not_seen"),
        detail=met.detail,
        attributes={key: value for key, value in met.evidence.items() if key != "kind" or met.id},
        tries=tuple(tried.evidence(shows) for tried, shows in zip(tries, shown, strict=True)),
    )


def _shows_fault(tried: RecordedTry, met: FaultMet) -> bool:
    """Whether the caller's record of the try shows what the gateway did."""
    shows = met.shows or {}
    delay = float(shows.get("delay_ms", 0.0))
    patience = tried.timeout_ms or (tried.ms if tried.gave_up else delay)
    if not shows or tried.ms < 0.9 * min(delay, patience):
        return False
    if delay > patience and tried.lost:
        return True  # it gave up before the rest could come
    if "lost" in shows:
        return tried.lost and not ("closed" in shows and tried.gave_up)
    digest = shows.get("digest", "")
    return "status" not in shows or (tried.status == shows["status"] and tried.digest in ("", digest))


def _unexplained_tries(records: EpisodeRecords) -> Iterator[Unexplained]:
    """Every failed try that neither a fault nor the service's own refusal explains."""
    toxics = {(a.attempt, planned.link): planned for a in records.armed for planned in a.toxics}
    for tried in records.tries:
        planned = toxics.get((tried.attempt, tried.link)) if tried.route == "proxy" else None
        end = records.ends.of(tried.attempt, planned) if planned else ToxicEnd()
        if tried.error is not None and not _explained(tried, planned, end):
            yield tried.unexplained()


def _explained(tried: RecordedTry, planned: PlannedToxic | None, end: ToxicEnd) -> bool:
    """By the gateway's fault, by the link's toxic, or because the service itself refused (4xx, not 429)."""
    faults = tried.exchange.faults if tried.exchange else []
    if any(_explains(met, tried) for met in faults if met.injected):
        return True
    if tried.lost:
        return planned is not None and bool(_shows_toxic(planned, tried, end))
    return tried.status is not None and 400 <= tried.status < 500 and tried.status != 429


def _explains(met: FaultMet, tried: RecordedTry) -> bool:
    """A request that was changed may fail in any way; of a reply that was, nothing may have arrived."""
    if met.shows is None or _shows_fault(tried, met):
        return True
    return tried.lost and ("status" in met.shows or "lost" in met.shows)
