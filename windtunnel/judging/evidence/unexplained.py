"""The failed tries that no fault of the lab explains."""

from __future__ import annotations

from collections.abc import Iterable

from windtunnel.history.events import FaultMet
from windtunnel.judging.evidence.gateway_faults import shows_fault
from windtunnel.judging.evidence.record import Unexplained
from windtunnel.judging.evidence.toxics import shows_toxic
from windtunnel.judging.evidence.tries import EpisodeRecords, RecordedTry
from windtunnel.toxiproxy.planned import PlannedToxic


def unexplained_tries(records: EpisodeRecords) -> Iterable[Unexplained]:
    """Every failed try that neither a fault nor the service's own refusal explains."""
    toxics = {(armed.attempt, toxic.link): toxic for armed in records.armed for toxic in armed.toxics}
    for tried in records.tries:
        toxic = toxics.get((tried.attempt, tried.link)) if tried.route == "proxy" else None
        if tried.error is not None and not _explained(tried, toxic):
            yield tried.unexplained()


def _explained(tried: RecordedTry, toxic: PlannedToxic | None) -> bool:
    """By the gateway's fault, by the link's toxic, or because the service itself refused (4xx, not 429)."""
    faults = tried.exchange.faults if tried.exchange else []
    if any(_explains(met, tried) for met in faults if met.injected):
        return True
    if tried.lost:
        return toxic is not None and bool(shows_toxic(toxic, tried))
    return tried.status is not None and 400 <= tried.status < 500 and tried.status != 429


def _explains(met: FaultMet, tried: RecordedTry) -> bool:
    """A request that was changed may fail in any way; of a reply that was, nothing may have arrived."""
    if met.shows is None or shows_fault(tried, met):
        return True
    return tried.lost and ("status" in met.shows or "lost" in met.shows)
