"""Fault sets scaled as a whole (``CHAOS_LEVEL``). Pure."""

from __future__ import annotations

from dataclasses import replace

from wirefault.faults.sets.fault_set import FaultSet


def scaled(faults: FaultSet, level: float) -> FaultSet:
    """Every probability times ``level``, 1 at most: 1 is as written, 0 is none. Those without a chance go."""
    if level == 1:
        return faults
    entries = [
        replace(e, when=e.when.model_copy(update={"probability": min(1.0, e.when.probability * level)}))
        for e in faults.faults
    ]
    toxics = [replace(t, probability=min(1.0, t.probability * level)) for t in faults.toxics]
    return FaultSet(
        tuple(e for e in entries if e.when.probability), tuple(t for t in toxics if t.probability)
    )


def capped(faults: FaultSet, level: float) -> list[str]:
    """The ids of those whose probability at this level would be more than 1, and is 1."""
    entries = [entry.id for entry in faults.faults if entry.when.probability * level > 1]
    return entries + [toxic.id for toxic in faults.toxics if toxic.probability * level > 1]
