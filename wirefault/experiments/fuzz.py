"""Fault sets drawn at random, each as an experiment, keyed by seed, space and number. Pure.

A space says what may be drawn: how many entries, which faults and toxics, and with what probability.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from pydantic import ValidationError

from wirefault.core.identity import choose, draw
from wirefault.faults.base import Fault
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.fault_set import FaultSet, FaultSetError, build_set
from wirefault.wiring.links import Links

_STEPS = 20
_WIDE = 50  # ranges wider than this factor are stepped geometrically
_UNBOUNDED = 100  # range of a number without a maximum
# bounds the duration of a drawn fault, so that the experiment ends
_MAX_MS, _MAX_S, _MIN_RATE = 2000, 2, 200


def drawn_parameters(fault: type[Fault], draw_for: Callable[[str], float]) -> dict[str, Any]:
    """Draw values for the fault's parameters; omitted ones keep their defaults."""
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
    """The JSON Schema of each parameter, cached: computing it dominates the draw."""
    properties: Mapping[str, Any] = fault.model_json_schema()["properties"]
    return properties


def options_of(name: str, declared: Mapping[str, Any]) -> Sequence[Any]:
    """The values to draw from for a parameter with that JSON Schema; empty if it is not drawn.

    None means to omit the parameter.
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
        high = min(high, _MAX_MS)
    elif name == "retry_after":
        high = min(high, _MAX_S)
    elif name == "bytes_per_second":
        low = max(low, _MIN_RATE)
    span, shares = high - low, [step / _STEPS for step in range(_STEPS + 1)]
    wide = low >= 0 and high > _WIDE * max(low, 1)
    values = [low + (span**share if wide and share else span * share) for share in shares]
    if declared["type"] == "integer":
        values = [round(value) for value in values]
    else:
        values = [float(f"{value:.3g}") for value in values]
    barred = (declared.get("exclusiveMinimum"), declared.get("exclusiveMaximum"))
    return [value for value in dict.fromkeys(values) if value not in barred]


def _is_taken(fault: type[Fault], values: Mapping[str, Any]) -> bool:
    """Whether the fault accepts these values together."""
    try:
        fault.model_validate(values)
    except ValidationError:
        return False
    return True


HYPOTHESIS = ("no false_success", "no duplicate")
_STREAMS = frozenset({"stream_cut", "stream_hang", "slow_first_token", "slow_tokens", "early_end"})
_STREAMS |= {"duplicate_event", "corrupt_event", "swap_events", "stream_error"}
_TOXIC_DOSES: Mapping[str, Sequence[dict[str, int]]] = {
    "latency": ({"latency": 200}, {"latency": 800}, {"latency": 300, "jitter": 200}),
    "timeout": ({"timeout": 400}, {"timeout": 1500}),
    "bandwidth": ({"rate": 1}, {"rate": 20}),
    "limit_data": ({"bytes": 100}, {"bytes": 2000}),
    "slow_close": ({"delay": 500},),
    "slicer": ({"average_size": 64, "delay": 5000},),
    "reset_peer": ({"timeout": 0}, {"timeout": 200}),
    "down": ({},),
}
_MAX_DRAWS = 50  # a wiring may lack links for most of a space


@dataclass(frozen=True)
class Space:
    """``holds`` decides which faults may be drawn, ``network`` whether toxics may. ``entries`` is the maximum
    number of entries, ``chances`` their probabilities.
    """

    holds: Callable[[str, type[Fault]], bool]
    network: bool = False
    entries: int = 3
    chances: Sequence[float] = (0.1, 0.25, 0.5, 1.0)
    settings: tuple[tuple[str, Any], ...] = ()


def _of_model(name: str, fault: type[Fault]) -> bool:
    return fault.where == "model" and name not in _STREAMS


def _of_tools(name: str, fault: type[Fault]) -> bool:
    # faults for the lab's servers cannot be armed in every wiring
    return (_is_anywhere(fault) or fault.where in ("tool", "mcp")) and not fault.lab_only


def _is_anywhere(fault: type[Fault]) -> bool:
    """Whether it acts on plain requests of any link; few agents open a WebSocket."""
    return fault.where == "any" and fault.family != "websocket"


def _anything(name: str, fault: type[Fault]) -> bool:
    return _of_model(name, fault) or _of_tools(name, fault)


SPACES: Mapping[str, Space] = {
    "default": Space(_anything, network=True),
    "llm": Space(lambda name, fault: _of_model(name, fault) or _is_anywhere(fault)),
    "stream": Space(lambda name, fault: name in _STREAMS, settings=(("stream", "true"),)),
    "tools": Space(_of_tools),
    "network": Space(lambda name, fault: False, network=True),
    "stress": Space(_anything, network=True, entries=6, chances=(0.5, 0.75, 1.0)),
}


def drawn_experiment(seed: int, number: int, space: str, links: Links) -> dict[str, Any]:
    """The data of one experiment as in its file, without wiring and prompts.

    Raises ``FaultSetError`` if the wiring has no link for the space.
    """
    chosen = SPACES[space]
    draw_for = partial(draw, seed, f"fuzz {space} {number}", 0, "", "", 0, 0)
    count = 1 + int(draw_for("count") * chosen.entries)
    faults: list[dict[str, Any]] = []
    toxics: list[dict[str, Any]] = []
    for place in range(_MAX_DRAWS):
        if len(faults) + len(toxics) == count:
            break
        of_entry = partial(_of_entry, draw_for, place)
        is_toxic = chosen.network and (of_entry("network") < 0.3 or space == "network")
        entry = _toxic(of_entry, chosen) if is_toxic else _fault(of_entry, space, chosen)
        candidate = (faults, [*toxics, entry]) if is_toxic else ([*faults, entry], toxics)
        if _can_be_armed(*candidate, links):
            faults, toxics = map(list, candidate)
    if not (faults or toxics):
        raise FaultSetError(f"the wiring has no link that the space {space} could strike")
    names = [str(entry.get("fault") or entry["toxic"]) for entry in (*faults, *toxics)]
    return {
        "title": f"fuzz {seed}-{number} ({space}): {', '.join(names)}",
        "description": f"Drawn by `wirefault faults draw --seed {seed} --space {space}` as number {number}.",
        "tags": ["fuzz", space],
        "seed": seed + number,
        # a short timeout for requests that hang
        "settings": {"model_timeout": 3, "attempt_time": 20, **dict(chosen.settings)},
        "method": {
            "faults": {key: entries for key, entries in (("faults", faults), ("toxics", toxics)) if entries},
        },
        "hypothesis": list(HYPOTHESIS),
    }


def _of_entry(draw_for: Callable[[str], float], place: int, purpose: str) -> float:
    return draw_for(f"{place} {purpose}")


def _fault(draw_for: Callable[[str], float], space: str, chosen: Space) -> dict[str, Any]:
    names = sorted(name for name, fault in REGISTRY.items() if chosen.holds(name, fault))
    name = choose(draw_for("fault"), names)
    of_model = REGISTRY[name].where == "model" or space == "llm"
    links = "model" if of_model else choose(draw_for("links"), ["tools", "tools", "writes"])
    chance = choose(draw_for("chance"), chosen.chances)
    entry = {"fault": name, "links": links, "when": {"probability": chance}}
    values = drawn_parameters(REGISTRY[name], draw_for)
    return {**entry, "with": values} if values else entry


def _toxic(draw_for: Callable[[str], float], chosen: Space) -> dict[str, Any]:
    kind = choose(draw_for("toxic"), sorted(_TOXIC_DOSES))
    entry: dict[str, Any] = {"toxic": kind, "links": choose(draw_for("links"), ["tools", "model"])}
    attributes = choose(draw_for("dose"), _TOXIC_DOSES[kind])
    if attributes:
        entry["with"] = attributes
    if kind != "down":
        entry["stream"] = choose(draw_for("stream"), ["downstream", "upstream"])
    return {**entry, "when": {"probability": choose(draw_for("chance"), chosen.chances)}}


def _can_be_armed(faults: list[Any], toxics: list[Any], links: Links) -> bool:
    try:
        made: FaultSet = build_set({"faults": faults, "toxics": toxics}, "fuzz", REGISTRY, links)
    except FaultSetError:
        return False
    armed = [entry.links for entry in made.faults] + [entry.links for entry in made.toxics]
    return all(armed)
