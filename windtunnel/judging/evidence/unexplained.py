"""The failed tries that no fault of the lab explains."""

from __future__ import annotations

from collections.abc import Iterable

from windtunnel.history.events import FaultMet
from windtunnel.judging.evidence.gateway_faults import shows_fault
from windtunnel.judging.evidence.record import Unexplained
from windtunnel.judging.evidence.toxics import shows_toxic
from windtunnel.judging.evidence.tries import Records, SeenTry
from windtunnel.toxiproxy.planned import PlannedToxic


def unexplained_tries(records: Records) -> Iterable[Unexplained]:
    """Every failed try that neither a fault nor the service's own refusal explains."""
    plans = {(one.attempt, plan.link): plan for one in records.armed for plan in one.toxics}
    for one in records.seen:
        plan = plans.get((one.attempt, one.link)) if one.route == "proxy" else None
        if one.error is not None and not _explained(one, plan):
            yield Unexplained(one.attempt, one.link, one.call, one.try_, one.error, one.route)


def _explained(seen: SeenTry, plan: PlannedToxic | None) -> bool:
    """By the gateway's fault, by the link's toxic, or because the service itself refused (4xx, not 429)."""
    faults = seen.exchange.faults if seen.exchange else []
    if any(_explains(met, seen) for met in faults if met.injected):
        return True
    if seen.lost:
        return plan is not None and bool(shows_toxic(plan, seen))
    return seen.status is not None and 400 <= seen.status < 500 and seen.status != 429


def _explains(met: FaultMet, seen: SeenTry) -> bool:
    """A request that was changed may fail in any way; of a reply that was, nothing may have arrived."""
    if met.shows is None or shows_fault(seen, met):
        return True
    return seen.lost and ("status" in met.shows or "lost" in met.shows)
