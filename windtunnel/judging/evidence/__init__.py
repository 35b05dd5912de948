"""How far each fault of an episode came: drawn, armed, met, injected, observed. Pure.

Toxiproxy keeps no record of the requests that a toxic touched, so for toxics *injected* is taken from the
caller's record too: the same as *observed*. For the gateway's faults the exchange is the record of the
injector. A fault is *delivered* when it was observed by a caller that kept a record of the try, or, where
none did, when it was injected.
"""

from __future__ import annotations

from collections.abc import Iterable

from windtunnel.history.events import Event
from windtunnel.judging.evidence.gateway_faults import fault_record
from windtunnel.judging.evidence.record import Evidence, FaultRecord, Stage, TryEvidence, Unexplained
from windtunnel.judging.evidence.toxics import toxic_record
from windtunnel.judging.evidence.tries import collect, repeatable_order
from windtunnel.judging.evidence.unexplained import unexplained_tries

__all__ = ["Evidence", "FaultRecord", "Stage", "TryEvidence", "Unexplained", "gather"]


def gather(events: Iterable[Event]) -> Evidence:
    """The evidence of one episode's events, which may come in any order."""
    records = collect(list(events))
    toxics = [toxic_record(records, one.attempt, plan) for one in records.armed for plan in one.toxics]
    faulted = sorted((one for one in records.exchanges if one.faults), key=repeatable_order)
    faults = [fault_record(records, one, met) for one in faulted for met in one.faults]
    return Evidence((*toxics, *faults), tuple(unexplained_tries(records)))
