"""The parameters of a fault drawn at random, each within the bounds that the fault declares for it. Pure.

What a fault declares is read from its JSON Schema, so that those of installed packages are drawn, too. Texts
and names have no bounds to be drawn within: these keep their defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from pydantic import ValidationError

from wirefault.core.draws import choose
from wirefault.faults.base import Fault

_STEPS = 20
_WIDE = 50  # a range whose ends differ by more than this factor is stepped through by factors, not by sums
_UNBOUNDED = 100  # as far above its least value a number is drawn that has no greatest
# a fault that can last for hours is given seconds, so that an experiment comes to its end
_LONGEST_MS, _LONGEST_S, _LEAST_RATE = 2000, 2, 200


def drawn_parameters(fault: type[Fault], draw_for: Callable[[str], float]) -> dict[str, Any]:
    """Values for its parameters, those left out that keep their defaults; the fault takes them together."""
    drawn: dict[str, Any] = {}
    for name, declared in _declared_by(fault).items():
        options = options_of(name, declared)
        if options and (value := choose(draw_for(f"with {name}"), options)) is not None:
            drawn[name] = value
    while drawn and not _is_taken(fault, drawn):
        drawn.popitem()
    return drawn


@cache
def _declared_by(fault: type[Fault]) -> Mapping[str, Any]:
    """The JSON Schema of each of its parameters, by name. Its making is most of a draw's work."""
    properties: Mapping[str, Any] = fault.model_json_schema()["properties"]
    return properties


def options_of(name: str, declared: Mapping[str, Any]) -> Sequence[Any]:
    """What is drawn from for a parameter with that JSON Schema; empty for one that is not drawn.

    None in it stands for leaving it out.
    """
    if kinds := declared.get("anyOf"):
        options = [option for kind in kinds for option in options_of(name, kind)]
        return [*options, *([None] * len(options))] if {"type": "null"} in kinds else options
    if "enum" in declared:
        return list(declared["enum"])
    if declared.get("type") == "boolean":
        return [False, True]
    if declared.get("type") in ("integer", "number"):
        return _numbers(name, declared)
    items = declared.get("items")
    if isinstance(items, dict) and "enum" in items:
        return [[item] for item in items["enum"]] + [list(items["enum"])]
    return []


def _numbers(name: str, declared: Mapping[str, Any]) -> Sequence[float]:
    low = declared.get("minimum", declared.get("exclusiveMinimum", 0))
    high = declared.get("maximum", declared.get("exclusiveMaximum", low + _UNBOUNDED))
    if name == "ms" or name.endswith("_ms"):
        high = min(high, _LONGEST_MS)
    elif name == "retry_after":
        high = min(high, _LONGEST_S)
    elif name == "bytes_per_second":
        low = max(low, _LEAST_RATE)
    span, shares = high - low, [step / _STEPS for step in range(_STEPS + 1)]
    wide = low >= 0 and high > _WIDE * max(low, 1)
    values = [low + (span**share if wide and share else span * share) for share in shares]
    if declared["type"] == "integer":
        values = [round(value) for value in values]
    else:
        values = [float(f"{value:.3g}") for value in values]
    barred = (declared.get("exclusiveMinimum"), declared.get("exclusiveMaximum"))
    return [value for value in dict.fromkeys(values) if value not in barred]


def _is_taken(fault: type[Fault], given: Mapping[str, Any]) -> bool:
    """Whether these go together."""
    try:
        fault.model_validate(given)
    except ValidationError:
        return False
    return True
