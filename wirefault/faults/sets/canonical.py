"""The canonical text of a fault set, as settings, a run's row and the history hold it. Pure.

``FaultSet.dump`` writes it. Whoever needs the set itself reads it once and keeps the object.
"""

from __future__ import annotations

from functools import lru_cache

from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.chaos_level import scaled
from wirefault.faults.sets.fault_set import FaultSet, build_set, load_set
from wirefault.wiring.links import Links


def canonical_text(given: object, links: Links) -> object:
    """The text of a set, of its plain data or of its text, checked; anything else is returned as it is.

    ``links``: those of the wiring. Raises ``FaultSetError``.
    """
    if isinstance(given, FaultSet):
        given = given.dump()  # read again below, since Python code may have put anything into it
    if isinstance(given, dict):
        return build_set(given, "fault set", REGISTRY, links).dump()
    return read_for(given, links).dump() if isinstance(given, str) else given


def read_canonical(text: str, chaos_level: float = 1.0) -> FaultSet:
    """The set, its probabilities times the level. Raises ``FaultSetError`` if this version cannot read it."""
    return scaled(read_for(text, None), chaos_level)


@lru_cache(maxsize=16)  # a pure function of the text: runner and judge of one process share what is read
def read_for(text: str, links: Links | None) -> FaultSet:
    """The set in the text, for these links; None for a canonical text. Raises ``FaultSetError``."""
    return load_set(text, "fault set", REGISTRY, links) if text else FaultSet()
