"""How far a toxic came, by its signature in the caller's record."""

from __future__ import annotations

from windtunnel.judging.evidence.record import FaultRecord
from windtunnel.judging.evidence.tries import Records, SeenTry
from windtunnel.toxiproxy.planned import PlannedToxic
from windtunnel.toxiproxy.toxics import toxic


def toxic_record(records: Records, attempt: int, plan: PlannedToxic) -> FaultRecord:
    """A toxic that the attempt was armed with."""
    crossing = records.crossing(attempt, plan.link)
    reached = any((e.attempt, e.link) == (attempt, plan.link) for e in records.exchanges)
    shown = [shows_toxic(plan, one) for one in crossing]
    observed = any(shown)
    why_not: str | None = None
    if None in shown:
        why_not = "unknown_kind"
    elif not observed:
        why_not = "not_seen" if crossing or reached else "not_exercised"
    return FaultRecord(
        link=plan.link,
        kind=plan.kind,
        stream=plan.stream,
        attempt=attempt,
        attributes=dict(plan.attributes),
        source="toxic",
        drawn=True,
        armed=True,
        met=bool(crossing) or reached,
        injected=observed,
        observed=observed,
        delivered=observed,
        why_not=why_not,
        tries=tuple(one.evidence(bool(sign)) for one, sign in zip(crossing, shown, strict=True)),
    )


def shows_toxic(plan: PlannedToxic, seen: SeenTry) -> bool | None:
    """Whether the try shows the toxic; None if this version cannot tell, for it knows no such toxic."""
    try:
        known = toxic(plan.kind)
        attributes = known.complete(plan.attributes)
    except ValueError:
        return None
    return known.observed(plan.stream, attributes, seen.sighting)
