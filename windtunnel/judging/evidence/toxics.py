"""How far a toxic came, by its signature in the caller's record."""

from __future__ import annotations

from windtunnel.judging.evidence.record import FaultRecord, WhyNotObserved
from windtunnel.judging.evidence.tries import EpisodeRecords, RecordedTry
from windtunnel.toxiproxy.planned import PlannedToxic
from windtunnel.toxiproxy.toxics import toxic


def toxic_record(records: EpisodeRecords, attempt: int, planned: PlannedToxic) -> FaultRecord:
    """A toxic that the attempt was armed with."""
    crossing = records.crossing(attempt, planned.link)
    met = bool(crossing) or any((e.attempt, e.link) == (attempt, planned.link) for e in records.exchanges)
    shown = [shows_toxic(planned, tried) for tried in crossing]
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


def shows_toxic(planned: PlannedToxic, tried: RecordedTry) -> bool | None:
    """Whether the try shows the toxic; None if this version cannot tell, because it knows no such toxic."""
    try:
        known = toxic(planned.kind)
        attributes = known.complete(planned.attributes)
    except ValueError:
        return None
    return known.observed(planned.stream, attributes, tried.as_observed)
