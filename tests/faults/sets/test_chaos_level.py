"""Sets scaled as a whole."""

from __future__ import annotations

from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.fault_set import FaultSet, build_set, scaled
from wirefault.wiring.links import lab_links

WHOLE = {
    "faults": [{"fault": "empty", "links": "search", "when": {"probability": 0.4}}],
    "toxics": [{"toxic": "latency", "when": {"probability": 0.2}}],
}


def test_level_is_factor_on_every_probability():
    whole = build_set(WHOLE, "test", REGISTRY, lab_links())
    half = scaled(whole, 0.5)
    assert (half.faults[0].when.probability, half.toxics[0].probability) == (0.2, 0.1)
    assert scaled(whole, 1) is whole
    assert scaled(whole, 0) == FaultSet()
