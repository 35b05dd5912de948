"""How far a fault of the gateway came, by its exchange and the caller's record."""

from __future__ import annotations

from windtunnel.history.events import Exchange, FaultMet
from windtunnel.judging.evidence.record import FaultRecord
from windtunnel.judging.evidence.tries import EpisodeRecords, RecordedTry


def fault_record(records: EpisodeRecords, exchange: Exchange, met: FaultMet) -> FaultRecord:
    """A fault that a try has met at the gateway."""
    tries = [tried for tried in records.tries if tried.exchange is exchange]
    shown = [met.injected and shows_fault(tried, met) for tried in tries]
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


def shows_fault(tried: RecordedTry, met: FaultMet) -> bool:
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
