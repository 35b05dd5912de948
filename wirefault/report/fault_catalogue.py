"""The catalogue of faults for people: the pages of ``docs/faults.md`` and of ``wirefault faults``."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from wirefault.core.caller_errors import ErrorKind, sorted_kinds
from wirefault.core.percent import percent
from wirefault.faults.base import Fault
from wirefault.faults.catalogue import FAULTS
from wirefault.faults.rates import Marginal, dose_shown, marginals
from wirefault.faults.registry import REGISTRY
from wirefault.faults.sets.chaos_level import scaled
from wirefault.faults.sets.dose import Dose, Outage
from wirefault.faults.sets.fault_set import FaultSet, ToxicEntry
from wirefault.faults.sets.presets import describe_preset, preset_names
from wirefault.faults.sets.selectors import Only
from wirefault.faults.sets.triggers import When, Window
from wirefault.report.dialect_table import dialect_columns, dialect_rows
from wirefault.report.mcp_table import read_mcp_seen, told_by_clients
from wirefault.wiring.lab import lab_links

_SIGNS = {Ge: ("ge", "≥"), Gt: ("gt", ">"), Le: ("le", "≤"), Lt: ("lt", "<")}


def range_of(field: FieldInfo) -> str:
    """``≥ 0, ≤ 1``; ``a``, ``b``; on, off; empty for what has none."""
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
    """Of a ``Literal``, an optional one too."""
    if get_origin(annotation) is Literal:
        return [str(option) for option in get_args(annotation)]
    if get_origin(annotation) in (Union, UnionType):
        return [option for part in get_args(annotation) for option in _options(part)]
    return []


def _limits(entry: Any) -> Iterator[Any]:
    """The bounds in a field's metadata, or in an annotation such as ``Annotated[...] | None``."""
    if isinstance(entry, tuple(_SIGNS)):
        yield entry
    elif isinstance(entry, FieldInfo):
        yield from entry.metadata
    elif get_origin(entry) is Annotated or get_origin(entry) in (Union, UnionType):
        parts = (*get_args(entry), *getattr(entry, "__metadata__", ()))
        yield from (limit for part in parts for limit in _limits(part))


def default_of(field: FieldInfo) -> str:
    """In backquotes; on or off for a truth value; empty for none."""
    value = field.get_default(call_default_factory=True)
    if isinstance(value, bool):
        value = "on" if value else "off"
    return "" if value is None or value == "" or value in ({}, [], ()) else f"`{value}`"


SEEN = Path("docs/faults_seen.json")
FAMILIES = {
    "http": "HTTP",
    "meaning": "The meaning of tool results",
    "model": "The model's replies",
    "context": "What the model is shown",
    "mcp": "MCP",
}
_WHERE = {"any": "any link", "tool": "tool links", "model": "the model link", "mcp": "links of MCP"}
# of one length each, so that a table of the console stays in line
Row = Sequence[str]


def summary_of(kind: type[Fault]) -> str:
    """The first sentence of its docstring."""
    return inspect.getdoc(kind).splitlines()[0] if kind.__doc__ else ""  # type: ignore[union-attr]


def place_of(kind: type[Fault]) -> str:
    return _WHERE[kind.where] + (", the lab's own only" if kind.lab_only else "")


def list_rows() -> list[Row]:
    """name, where, family, what it does; in the catalogue's order, and after it what packages bring."""
    return [
        (name, place_of(kind), kind.family, summary_of(kind) + from_package(name))
        for name, kind in REGISTRY.items()
    ]


def from_package(name: str) -> str:
    """Which package a fault is from, to follow what is said of it; nothing for the catalogue's."""
    package = REGISTRY.package_of(name)
    return f" (from {package})" if package else ""


def fault_page(kind: type[Fault], level: int = 2) -> str:
    """One fault: its docstring, and its parameters with units, ranges and defaults."""
    head = f"{'#' * level} {kind.name}\n\n*{FAMILIES[kind.family]}; {place_of(kind)}*"
    causes = f"Errors of a try that it can cause: {causes_shown(kind.can_cause)}."
    parts = [head, inspect.getdoc(kind) or "", causes, *_table(parameter_rows(kind))]
    return "\n\n".join(parts) + "\n"


def causes_shown(kinds: Iterable[ErrorKind]) -> str:
    """The errors that a fault or a toxic can cause, in words."""
    return ", ".join(f"`{kind}`" for kind in sorted_kinds(kinds)) or "none"


def parameter_rows(model: type[BaseModel]) -> list[Row]:
    return [
        (f"`{info.alias or name}`", default_of(info), range_of(info), info.description or "")
        for name, info in model.model_fields.items()
    ]


def _table(rows: Sequence[Row], head: Row = ("parameter", "default", "range", "meaning")) -> list[str]:
    """A table of Markdown, or nothing without rows."""
    if not rows:
        return []
    lines = [head, ["---"] * len(head), *rows]
    return ["\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines)]


def faults_page(seen: Mapping[str, Mapping[str, str]]) -> str:
    """``docs/faults.md`` without its title. ``seen``: what each client saw of each fault."""
    return "\n\n".join(
        [
            *_contents(),
            "## Triggers: `when`",
            *_table(parameter_rows(When)),
            "A `window` has:",
            *_table(parameter_rows(Window)),
            "## Selectors: `only`",
            *_table(parameter_rows(Only)),
            "## The dose: `together`, `during`",
            "A toxic is drawn for each attempt and link, a fault for each try; both stand throughout the"
            " attempt, but for these keys of their entry"
            " ([more](outages.md)):",
            *_table(parameter_rows(Dose)),
            "An outage of `during` has:",
            *_table(parameter_rows(Outage)),
            "## Presets",
            *_table([(f"`{name}`", describe_preset(name)) for name in preset_names()], ("preset", "meaning")),
            *_families(),
            "## Dialects of models",
            "In which form of each API's replies a fault was seen to act, between a provider's own client and"
            " a server. A fault of event streams leaves whole replies as they are.",
            *_table(list(dialect_rows([kind.name for kind in FAULTS], seen)), ("fault", *dialect_columns())),
            "## What clients see",
            *_seen(seen),
        ]
    )


def _contents() -> Iterator[str]:
    for family, title in FAMILIES.items():
        names = [f"[{kind.name}](#{kind.name})" for kind in FAULTS if kind.family == family]
        if names:
            yield f"**{title}**: {', '.join(names)}"


def _families() -> Iterator[str]:
    for family, title in FAMILIES.items():
        pages = [_with_clients(kind) for kind in FAULTS if kind.family == family]
        if pages:
            yield from (f"## {title}", *pages)


def _with_clients(kind: type[Fault]) -> str:
    """The fault's page; of MCP's also what the clients made of it, which no other table of this page has."""
    page = fault_page(kind, 3).rstrip()
    told = list(told_by_clients(kind.name, read_mcp_seen())) if kind.family == "mcp" else []
    heading = "What [clients of MCP](mcp.md#what-clients-make-of-it) made of it over HTTP:"
    return "\n\n".join([page, heading, "\n".join(told)]) if told else page


def _seen(seen: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """One table for each family, a row for each fault with the parameters that were tried."""
    yield (
        "Noted by the tests, each fault with probability 1, through the gateway, between a real client and a"
        " server: an exception, *silent* (the changed answer is taken as good), or retries and what they got."
    )
    families = {kind.name: kind.family for kind in FAULTS}
    order = list(families)
    rows = [row for row in seen if _fault_of(row) in families]
    for family, title in FAMILIES.items():
        of_family = sorted((row for row in rows if families[_fault_of(row)] == family), key=_order(order))
        for whose, of_tools in (("of tools", True), ("of models", False)):
            table = _seen_by(of_family, seen, of_tools)
            if table:
                yield from (f"### {title}: what clients {whose} see", *table)


def _seen_by(rows: Sequence[str], seen: Mapping[str, Mapping[str, str]], of_tools: bool) -> Sequence[str]:
    """The rows that such clients tried, a column each."""
    clients = sorted({client for row in rows for client in seen[row] if _of_tools(client) == of_tools})
    tried = [row for row in rows if any(client in seen[row] for client in clients)]
    cells = [(f"`{row}`", *(seen[row].get(client, "") for client in clients)) for row in tried]
    return _table(cells, ("fault", *clients))


def _of_tools(client: str) -> bool:
    """``requests`` asks tools, with what the upstream did beside it; the SDKs ask models."""
    return client.startswith(("requests", "the upstream"))


def _order(names: Sequence[str]) -> Callable[[str], tuple[int, str]]:
    return lambda row: (names.index(_fault_of(row)), row)


def _fault_of(row: str) -> str:
    """A row's fault: its name, perhaps with parameters behind it."""
    return row.partition(" (")[0]


def read_seen() -> Mapping[str, Mapping[str, str]]:
    """The table that the tests wrote; empty before they did."""
    seen: dict[str, dict[str, str]] = json.loads(SEEN.read_text(encoding="utf-8")) if SEEN.exists() else {}
    return seen


# a set


def set_rows(faults: FaultSet, level: float = 1.0) -> list[Row]:
    """id, links, rate, conditions: how often each entry truly acts, on the links where that is the same."""
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
        conditions_of_toxic(entry),
    )


def conditions_of_toxic(entry: ToxicEntry) -> str:
    """In which turns and episodes, on how many links by one draw, and in which parts of the attempt it
    stands, on one line; empty where nothing was said."""
    first, last = entry.turn or (1, None)
    turn = [] if entry.turn is None else [f"turn {first}" + ("" if last == first else f"-{last or ''}")]
    episodes = [f"episodes {' or '.join(entry.only.episodes)}"] if entry.only.episodes else []
    return ", ".join([*turn, *episodes, *dose_shown(entry.dose)])


def links(names: Iterable[str]) -> str:
    """``all``, ``tools``, or their names."""
    chosen = list(names)
    groups = {group: set(of_group) for group, of_group in lab_links().groups.items() if len(of_group) > 1}
    return next((group for group in groups if groups[group] == set(chosen)), ", ".join(chosen))
