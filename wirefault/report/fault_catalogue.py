"""The catalogue of faults for people: the pages of ``docs/faults.md`` and of ``wirefault faults``."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from wirefault.faults.base import Fault
from wirefault.faults.rates import Marginal, dose_text, marginals
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.fault_set import FaultSet, ToxicEntry, scaled
from wirefault.stats.rates import percent
from wirefault.wiring.links import lab_links

_SIGNS = {Ge: ("ge", "≥"), Gt: ("gt", ">"), Le: ("le", "≤"), Lt: ("lt", "<")}


def range_of(field: FieldInfo) -> str:
    """Return the range: ``≥ 0, ≤ 1``; ``a``, ``b``; on, off; empty without one."""
    if field.annotation is bool:
        return "on, off"
    options = _options(field.annotation)
    if options:
        return ", ".join(f"`{option}`" for option in options)
    limits = [limit for entry in (*field.metadata, field.annotation) for limit in _limits(entry)]
    return ", ".join(
        f"{sign} {getattr(limit, name):g}"
        for limit in limits
        for kind, (name, sign) in _SIGNS.items()
        if isinstance(limit, kind)
    )


def _options(annotation: Any) -> list[str]:
    """Return the options of a ``Literal``, also of an optional one."""
    if get_origin(annotation) is Literal:
        return [str(option) for option in get_args(annotation)]
    if get_origin(annotation) in (Union, UnionType):
        return [option for part in get_args(annotation) for option in _options(part)]
    return []


def _limits(entry: Any) -> Iterator[Any]:
    """Return the bounds in a field's metadata, or in an annotation such as ``Annotated[...] | None``."""
    if isinstance(entry, tuple(_SIGNS)):
        yield entry
    elif isinstance(entry, FieldInfo):
        yield from entry.metadata
    elif get_origin(entry) is Annotated or get_origin(entry) in (Union, UnionType):
        parts = (*get_args(entry), *getattr(entry, "__metadata__", ()))
        yield from (limit for part in parts for limit in _limits(part))


def default_of(field: FieldInfo) -> str:
    """Return the default in backquotes, on or off for a truth value; empty if there is none."""
    value = field.get_default(call_default_factory=True)
    if isinstance(value, bool):
        value = "on" if value else "off"
    return "" if value is None or value == "" or value in ({}, [], ()) else f"`{value}`"


_WHERE = {"any": "any link", "tool": "tool links", "model": "the model link", "mcp": "links of MCP"}
# all of the same length, so that a table on the console stays aligned
Row = Sequence[str]


def summary_of(kind: type[Fault]) -> str:
    """Return the first sentence of the docstring."""
    return inspect.getdoc(kind).splitlines()[0] if kind.__doc__ else ""  # type: ignore[union-attr]


def place_of(kind: type[Fault]) -> str:
    return _WHERE[kind.where] + (", the lab's own only" if kind.lab_only else "")


def list_rows() -> list[Row]:
    """Yield name, place, family and summary, in the catalogue's order; faults of packages follow."""
    return [
        (name, place_of(kind), kind.family, summary_of(kind) + from_package(name))
        for name, kind in REGISTRY.items()
    ]


def from_package(name: str) -> str:
    """Return a note on the fault's package, to append to a description; empty for the catalogue's faults."""
    package = REGISTRY.package_of(name)
    return f" (from {package})" if package else ""


def parameter_rows(model: type[BaseModel]) -> list[Row]:
    return [
        (f"`{info.alias or name}`", default_of(info), range_of(info), info.description or "")
        for name, info in model.model_fields.items()
    ]


def set_rows(faults: FaultSet, level: float = 1.0) -> list[Row]:
    """Yield id, links, rate and conditions: how often each entry truly acts, grouped by equal links."""
    in_force = scaled(faults, level)
    alike: dict[tuple[object, ...], list[Marginal]] = {}
    for marginal in marginals(in_force):
        alike.setdefault((marginal.id, round(marginal.low, 9), round(marginal.high, 9)), []).append(marginal)
    return [*map(_rate_row, alike.values()), *map(_toxic_row, in_force.toxics)]


def _rate_row(group: Sequence[Marginal]) -> Row:
    marginal = group[0]
    name = marginal.id if marginal.id == marginal.kind else f"{marginal.id} ({marginal.kind})"
    least, most = percent(marginal.low), percent(marginal.high)
    rate = least if least == most else f"{least} to {most}"
    return name, links(g.link for g in group), f"{rate} of tries", marginal.conditions


def _toxic_row(entry: ToxicEntry) -> Row:
    return (
        f"{entry.id} (toxic {entry.spec})",
        links(entry.links),
        f"{percent(entry.probability)} of attempts",
        toxic_conditions(entry),
    )


def toxic_conditions(entry: ToxicEntry) -> str:
    """Describe a toxic's turns, episodes, number of links per draw and parts of the attempt; empty without
    any.
    """
    first, last = entry.turn or (1, None)
    turn = [] if entry.turn is None else [f"turn {first}" + ("" if last == first else f"-{last or ''}")]
    episodes = [f"episodes {' or '.join(entry.only.episodes)}"] if entry.only.episodes else []
    return ", ".join([*turn, *episodes, *dose_text(entry.dose)])


def links(names: Iterable[str]) -> str:
    """Return ``all``, ``tools``, or the links' names."""
    chosen = list(names)
    groups = {group: set(of_group) for group, of_group in lab_links().groups.items() if len(of_group) > 1}
    return next((group for group in groups if groups[group] == set(chosen)), ", ".join(chosen))
