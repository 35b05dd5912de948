"""Every number of every fault, toxic, trigger and setting: obeyed at its bounds, refused beyond them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel

from tests.faults.tries import a_try, act_of, always
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.conditions import When
from wirefault.faults.sets.fault_set import FaultSetError, build_set
from wirefault.settings.settings import Settings, SettingsError
from wirefault.settings.sources import Source, merge_sources
from wirefault.toxiproxy.toxics import TOXICS
from wirefault.wiring.links import Link, Links

LINKS = Links(
    [Link("shop", "http://127.0.0.1:9"), Link("model", "http://127.0.0.1:9", "openai_chat")], grows=True
)
LARGE = 10**9  # for a number without an upper bound
# Bounds that hold only beside these other parameters.
BESIDE: dict[tuple[str, str], dict[str, Any]] = {
    ("delay", "max_ms"): {"ms": 0},
    ("api_timeout", "at_least"): {"limit": 3600},
}
LARGEST = {("api_timeout", "at_least"): 3600}  # another parameter is its bound


def _bounds(model: type[BaseModel], field: str) -> tuple[float | None, float | None, bool, bool]:
    """The least and the largest value, and whether each itself is refused."""
    low = high = None
    below = above = False
    for bound in model.model_fields[field].metadata:
        if isinstance(bound, (Ge, Gt)):
            low, below = float(getattr(bound, "ge", getattr(bound, "gt", 0))), isinstance(bound, Gt)
        elif isinstance(bound, (Le, Lt)):
            high, above = float(getattr(bound, "le", getattr(bound, "lt", 0))), isinstance(bound, Lt)
    return low, high, below, above


def _cases(model: type[BaseModel], of: str) -> Iterator[Any]:
    for field, info in model.model_fields.items():
        low, high, below, above = _bounds(model, field)
        if low is None and high is None:
            continue
        whole = "int" in str(info.annotation) and "float" not in str(info.annotation)
        step = 1 if whole else 1e-9
        high = LARGEST.get((of, field), high)
        least = None if low is None else low + step if below else low
        most = LARGE if high is None else high - step if above else high
        number = int if whole else float
        for value in (least, most):
            if value is not None:
                yield pytest.param(of, field, number(value), True, id=f"{of}-{field}-{value:g}")
        for value in (
            None if least is None else least - step,
            None if high is None else most + max(step, 1e-6),
        ):
            if value is not None:
                yield pytest.param(of, field, number(value), False, id=f"{of}-{field}-not-{value:g}")
        if not whole:
            for value in (math.nan, math.inf):
                yield pytest.param(of, field, value, False, id=f"{of}-{field}-not-{value}")


def _entry(fault: str, parameters: dict[str, Any], when: dict[str, Any]) -> Any:
    entry = {"fault": fault, "with": parameters, "when": when, "links": "all"}
    return build_set({"faults": [entry]}, "faults.yaml", REGISTRY, LINKS).faults[0]


@pytest.mark.parametrize(
    ("fault", "field", "value", "is_valid"),
    [case for name, kind in sorted(REGISTRY.items()) for case in _cases(kind, name)],
)
def test_number_of_a_fault(fault: str, field: str, value: float, is_valid: bool) -> None:
    parameters = {**BESIDE.get((fault, field), {}), field: value}
    if is_valid:
        assert getattr(_entry(fault, parameters, {}).fault, field) == value
        return
    with pytest.raises(FaultSetError, match=rf"faults\.yaml: .*{field}"):
        _entry(fault, parameters, {})


@pytest.mark.parametrize(("of", "field", "value", "is_valid"), list(_cases(When, "when")))
def test_number_of_a_trigger(of: str, field: str, value: float, is_valid: bool) -> None:
    if is_valid:
        assert getattr(_entry("delay", {}, {field: value}).when, field) == value
        return
    with pytest.raises(FaultSetError, match=rf"faults\.yaml: .*{field}"):
        _entry("delay", {}, {field: value})


@pytest.mark.parametrize("toxic", TOXICS, ids=lambda toxic: str(toxic.kind))
def test_numbers_of_a_toxic(toxic: Any) -> None:
    for attribute in toxic.attributes:
        values = {each.name: each.default for each in toxic.attributes}
        for value in (attribute.minimum, attribute.maximum):
            chosen = values | {attribute.name: value}
            if toxic.problem(chosen):  # its bound is another attribute
                with pytest.raises(FaultSetError, match=attribute.name):
                    _toxic(toxic.kind, chosen)
                continue
            assert dict(_toxic(toxic.kind, chosen).attributes) == chosen
        for value in (attribute.minimum - 1, attribute.maximum + 1, 0.5, math.inf):
            with pytest.raises(FaultSetError, match=rf"faults\.yaml: .*{attribute.name}"):
                _toxic(toxic.kind, values | {attribute.name: value})


def _toxic(kind: str, attributes: dict[str, Any]) -> Any:
    entry = {"toxic": kind, "with": attributes, "links": "all"}
    return build_set({"toxics": [entry]}, "faults.yaml", REGISTRY, LINKS).toxics[0].spec


@pytest.mark.parametrize(("of", "field", "value", "is_valid"), list(_cases(Settings, "settings")))
def test_number_of_a_setting(of: str, field: str, value: float, is_valid: bool) -> None:
    source = Source("wirefault.yaml", {"seed": 1, field: value})
    if is_valid:
        assert getattr(merge_sources([source]), field) == value
        return
    with pytest.raises(SettingsError, match=rf"(?i){field}.*wirefault\.yaml|wirefault\.yaml.*{field}"):
        merge_sources([source])


def test_delay_that_would_be_negative_is_refused() -> None:
    with pytest.raises(FaultSetError, match=r"spread_ms.*cannot be negative"):
        _entry("delay", {"kind": "uniform", "ms": 200, "spread_ms": 201}, {})
    with pytest.raises(FaultSetError, match="jitter must be at most latency"):
        _toxic("latency", {"latency": 300, "jitter": 301})


@pytest.mark.parametrize(
    ("fault", "parameters", "seconds"),
    [
        ("delay", {"ms": 600_000}, 600),
        ("delay", {"kind": "spike", "spike_ms": 600_000, "spike_chance": 1}, 600),
        ("delay", {"kind": "degrading", "ms": 600_000, "step_ms": 600_000}, 600 * LARGE),
    ],
)
def test_longest_delay_is_not_cut(fault: str, parameters: dict[str, Any], seconds: float) -> None:
    act = act_of(REGISTRY[fault](**parameters), a_try(ordinal=LARGE, chance=always(0.0)))
    assert act.delay == pytest.approx(seconds, rel=1e-6)
