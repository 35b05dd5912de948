"""How far a fault of the gateway came, by its exchange and the caller's record."""

from __future__ import annotations

from windtunnel.history.events import Exchange, FaultMet
from windtunnel.judging.evidence.record import FaultRecord
from windtunnel.judging.evidence.tries import Records, SeenTry


def fault_record(records: Records, exchange: Exchange, met: FaultMet) -> FaultRecord:
    """A fault that the gateway drew for a try that was made."""
    caller = [one for one in records.seen if one.exchange is exchange]
    shown = [met.injected and shows_fault(one, met) for one in caller]
    observed = any(shown)
    silent = observed or met.shows is None  # what a caller cannot see is no fault of its record
    return FaultRecord(
        link=exchange.link,
        kind=met.kind,
        stream=None,
        attempt=exchange.attempt,
        attributes={key: value for key, value in met.evidence.items() if key != "kind" or met.id},
        source="fault" if met.id else "error",
        drawn=True,
        armed=True,
        met=True,
        injected=met.injected,
        observed=observed,
        delivered=observed if caller and met.shows is not None else met.injected,
        why_not=met.why_not or (None if silent else "not_seen"),
        tries=tuple(one.evidence(shows) for one, shows in zip(caller, shown, strict=True)),
        id=met.id,
    )


def shows_fault(seen: SeenTry, met: FaultMet) -> bool:
    """Whether the caller's record of the try shows what the gateway did."""
    shows = met.shows or {}
    delay = float(shows.get("delay_ms", 0.0))
    patience = seen.timeout_ms or (seen.ms if seen.gave_up else delay)
    if not shows or seen.ms < 0.9 * min(delay, patience):
        return False
    if delay > patience and seen.lost:
        return True  # it gave up before the rest could come
    if "lost" in shows:
        return seen.lost and not ("closed" in shows and seen.gave_up)
    digest = shows.get("digest", "")
    return "status" not in shows or (seen.status == shows["status"] and seen.digest in ("", digest))
