"""Builders of faults: one for each fault of the catalogue, with its parameters."""

from __future__ import annotations

import inspect

import pytest

from wirefault import faults
from wirefault.faults import build
from wirefault.faults.catalogue import FAULTS
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.fault_set import build_set


def test_builders_are_the_catalogue() -> None:
    assert sorted(build.__all__) == sorted(fault.name for fault in FAULTS)
    for fault in FAULTS:
        parameters = inspect.signature(getattr(build, fault.name)).parameters
        assert [*parameters][1:-1] == [*fault.model_fields], fault.name


@pytest.mark.parametrize("name", build.__all__)
def test_each_builder_makes_entry_of_fault_set(name: str) -> None:
    entry = getattr(faults, name)(episodes=["a"])
    [read] = build_set({"faults": [entry]}, "built", REGISTRY, None).faults
    assert read.fault.name == name and read.only.episodes == ("a",)


def test_builder_has_parameters_and_conditions() -> None:
    entry = faults.rate_limit(link="model", retry_after=2, nth=1, after_calls=3, tool="search")
    assert entry == {
        "fault": "rate_limit",
        "links": "model",
        "with": {"retry_after": 2},
        "when": {"nth": 1, "after": 3},
        "only": {"tool": "search"},
    }


def test_every_condition_of_a_fault_set_can_be_built() -> None:
    entry = faults.delay(
        link="tools",
        ms=5,
        probability=0.5,
        first_calls=2,
        of="try",
        turn="2-",
        cooldown=1,
        only_header={"X-Team": "blue"},
        during={"start": 1, "duration": 2},
        together=True,
    )
    [read] = build_set({"faults": [entry]}, "built", REGISTRY, None).faults
    assert (read.when.of, read.when.first, read.when.cooldown) == ("try", 2, 1)
    assert read.only.header == {"X-Team": "blue"}
    assert read.dose.together and len(read.dose.during) == 1
    assert build_set({"faults": [faults.empty(model_requests=2)]}, "built", REGISTRY, None).faults


def test_unknown_names_are_errors() -> None:
    with pytest.raises(AttributeError, match="no fault 'rate_limits'"):
        _ = faults.rate_limits
    with pytest.raises(TypeError, match="unknown condition nht"):
        faults.rate_limit(nht=1)  # type: ignore[call-arg]
