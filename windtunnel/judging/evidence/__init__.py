"""How far each fault of an episode came: eligible, drawn, armed, met, injected, observed. Pure.

Toxiproxy keeps no record of the requests that a toxic touched, so whether a toxic was *injected* is known
from the caller's record alone, which is the same as *observed*. The gateway records in the exchange what its
faults injected. A fault is *delivered* when it was observed by a caller that kept a record of the try, or,
where none did, when it was injected.
"""

from __future__ import annotations

from collections.abc import Iterable

from windtunnel.history.events import Event
from windtunnel.judging.evidence.gateway_faults import fault_record
from windtunnel.judging.evidence.record import Evidence, FaultRecord, Unexplained
from windtunnel.judging.evidence.toxics import toxic_record
from windtunnel.judging.evidence.tries import records_of, repeatable_order
from windtunnel.judging.evidence.unexplained import unexplained_tries

__all__ = ["Evidence", "FaultRecord", "Unexplained", "gather"]


def gather(events: Iterable[Event]) -> Evidence:
    """The evidence of one episode's events, which may come in any order."""
    records = records_of(list(events))
    toxics = [toxic_record(records, a.attempt, toxic) for a in records.armed for toxic in a.toxics]
    exchanges = sorted(records.exchanges, key=repeatable_order)
    faults = [fault_record(records, exchange, met) for exchange in exchanges for met in exchange.faults]
    return Evidence((*toxics, *faults), tuple(unexplained_tries(records)))
