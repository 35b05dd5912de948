"""Fault sets: which faults, on which links, when, and at which requests. Files or Python objects. Pure.

    faults:
      - fault: rate_limit
        links: tools                    # a link, a list of links, tools, writes, model or all
        with: {retry_after: 1}         # the fault's parameters
        when: {probability: 0.3}       # see wirefault.faults.sets.triggers
        only: {method: POST, path: /message, json: {to: Bob}}
    toxics:                            # at connection level; the manager arms them
      - toxic: latency
        links: weather
        with: {latency: 500}
        when: {probability: 0.5}       # per attempt and link
        together: true                 # ... or one draw for all its links
        during: {start: 2s, duration: 3s}   # an outage inside the attempt, see wirefault.faults.sets.dose

``load_set`` reads one; ``FaultSet.dump`` writes its canonical form, which is frozen in a run's row. A set is
read for the ``links`` of a wiring, which it may name one by one or as the groups ``tools``, ``writes`` (those
that declare some), ``model`` and ``all``. The links of a canonical text were checked when it was made: with
None they stand as they are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wirefault.core.plugins import PluginError
from wirefault.core.spelling import nearest
from wirefault.core.strict_yaml import PlainDataError, plain_data, read_yaml
from wirefault.dialects.mcp import CALL
from wirefault.faults.base import BUDGET_ID, Fault
from wirefault.faults.sets.checks import (
    FaultSetError,
    checked_mapping,
    checked_model,
    list_or_empty,
    required_name,
    text_or,
)
from wirefault.faults.sets.dose import Dose, dose_of
from wirefault.faults.sets.named_links import named_links
from wirefault.faults.sets.selectors import Only
from wirefault.faults.sets.toxic_entry import ToxicEntry, toxic_entry
from wirefault.faults.sets.triggers import When
from wirefault.wiring.links import Links

Registry = Mapping[str, type[Fault]]

__all__ = ["Entry", "FaultSet", "FaultSetError", "Registry", "ToxicEntry", "build_set", "load_set"]


@dataclass(frozen=True)
class Entry:
    """A fault on these ``links``: ``only`` says which requests are eligible, ``when`` which of them meet it,
    and ``dose`` in which part of the attempt, and whether by one draw of the attempt.

    ``id`` names it in the history and keys its draws, so two entries of one set differ in it. A set that was
    read has one for each.
    """

    fault: Fault
    links: tuple[str, ...]
    when: When = field(default_factory=When)
    only: Only = field(default_factory=Only)
    id: str = ""
    dose: Dose = field(default_factory=Dose)

    @property
    def certain(self) -> bool:
        """Whether every eligible try meets it, which makes it a canary."""
        return self.when.certain and self.dose == Dose()

    def dump(self) -> dict[str, Any]:
        return {
            "id": self.id or self.fault.name,
            "fault": self.fault.name,
            "links": list(self.links),
            "with": self.fault.model_dump(mode="json", exclude_defaults=True, by_alias=True),
            "when": self.when.model_dump(mode="json", exclude_defaults=True),
            "only": self.only.model_dump(mode="json", exclude_defaults=True, by_alias=True),
            **self.dose.model_dump(mode="json", exclude_defaults=True),
        }


@dataclass(frozen=True)
class FaultSet:
    """What may go wrong, in the order in which it is considered. ``description`` is for people."""

    faults: tuple[Entry, ...] = ()
    toxics: tuple[ToxicEntry, ...] = ()
    description: str = field(default="", compare=False)

    @property
    def ids(self) -> list[str]:
        """Of its faults, then of its toxics."""
        return [fault.id for fault in self.faults] + [toxic.id for toxic in self.toxics]

    @property
    def can_be_met(self) -> bool:
        """Whether anything in it has a chance."""
        return any(e.when.probability for e in self.faults) or any(t.probability for t in self.toxics)

    def on(self, links: Links) -> FaultSet:
        """The set with the links that were found in the place of the names for those to be found."""
        faults = tuple(replace(e, links=_expanded(e.links, links)) for e in self.faults)
        toxics = tuple(replace(e, links=_expanded(e.links, links)) for e in self.toxics)
        return FaultSet(faults, toxics, self.description)

    def dump(self) -> str:
        """Canonical JSON, which ``load_set`` reads again to the same set; empty for an empty set."""
        if not self.faults and not self.toxics:
            return ""
        body = {"faults": [e.dump() for e in self.faults], "toxics": [t.dump() for t in self.toxics]}
        return json.dumps({key: value for key, value in body.items() if value}, sort_keys=True)


def _expanded(names: Sequence[str], links: Links) -> tuple[str, ...]:
    found = links.found_by_group
    return tuple(dict.fromkeys(link for name in names for link in found.get(name, (name,))))


def load_set(text: str, where: str, registry: Registry, links: Links | None) -> FaultSet:
    """Reads YAML or JSON. ``where`` (a file's name) is shown in errors. Raises ``FaultSetError``."""
    return build_set(_checked_data(read_yaml, text, where), where, registry, links)


def build_set(value: Any, where: str, registry: Registry, links: Links | None) -> FaultSet:
    """The same from plain data. Raises ``FaultSetError``."""
    data = _checked_data(plain_data, value, where)
    top = checked_mapping(data, where, ("faults", "toxics", "description"))
    faults = [
        _entry(entry, f"{where}: faults[{number}]", registry, links)
        for number, entry in enumerate(list_or_empty(top.get("faults"), f"{where}: faults"), start=1)
    ]
    toxics = [
        toxic_entry(entry, f"{where}: toxics[{number}]", links)
        for number, entry in enumerate(list_or_empty(top.get("toxics"), f"{where}: toxics"), start=1)
    ]
    description = text_or("", top.get("description"), f"{where}: description")
    return FaultSet(tuple(_numbered(faults, where)), tuple(_numbered(toxics, where)), description)


def _checked_data(read: Callable[[Any, str], Any], given: Any, where: str) -> Any:
    try:
        return read(given, where)
    except PlainDataError as error:
        raise FaultSetError(str(error)) from None


def _entry(value: Any, where: str, registry: Registry, links: Links | None) -> Entry:
    given = checked_mapping(
        value, where, ("fault", "links", "with", "when", "only", "id", *Dose.model_fields)
    )
    name = required_name(given, "fault", registry, where)
    try:
        kind = registry.get(name)
    except PluginError as error:
        raise FaultSetError(f"{where}: {error}") from None
    if kind is None:
        raise FaultSetError(f"{where}: fault {name!r} is unknown{nearest(name, registry)}")
    fault = checked_model(kind, given.get("with"), f"{where}: {name}: with")
    when = checked_model(When, given.get("when"), f"{where}: {name}: when")
    only = checked_model(Only, given.get("only"), f"{where}: {name}: only")
    on = _links(given.get("links"), kind, f"{where}: {name}: links", links)
    only, on = _narrowed_to_tool(only, on, f"{where}: {name}: only: tool", links)
    named = text_or(name, given.get("id"), f"{where}: {name}: id")
    return Entry(fault, on, when, only, named, dose_of(given, f"{where}: {name}"))


def _narrowed_to_tool(
    only: Only, on: tuple[str, ...], where: str, links: Links | None
) -> tuple[Only, tuple[str, ...]]:
    """The selectors and links with a tool's name replaced by its method, path and link."""
    if only.tool is None or links is None:
        return only, on
    of_mcp = tuple(name for name in on if name in links.mcp_names)
    if of_mcp and only.tool not in links.declared_tools:  # which tools a server of MCP has is known later
        called = {**only.json_, "params.name": only.tool}
        return only.model_copy(update={"method": CALL, "json_": called}), of_mcp
    try:
        link, method, path = links.link_of_tool(only.tool)
    except KeyError as error:
        raise FaultSetError(f"{where}: {error.args[0]}") from None
    if link not in on:
        raise FaultSetError(f"{where}: {only.tool} is on the link {link}, which `links` does not name")
    if only.method is not None and only.method.upper() != method:
        raise FaultSetError(f"{where}: {only.tool} is called by {method}, never by {only.method}")
    return only.model_copy(update={"method": method, "path": only.path or path}), (link,)


def _links(value: Any, kind: type[Fault], where: str, links: Links | None) -> tuple[str, ...]:
    """The links meant, without those on which the fault is impossible. Raises if none is left."""
    chosen, grouped = named_links("all" if value is None else value, where, links)
    if links is None:
        return chosen
    groups = links.groups
    possible = {
        "any": (*links.eligible_names, *groups["writes"]),
        "tool": (*groups["tools"], *groups["writes"]),
        "model": groups["model"],
        "mcp": links.mcp_names,
    }[kind.where]
    if kind.where == "mcp" and kind.lab_only:  # a server that is found is never the lab's
        possible = tuple(name for name in possible if name not in links.found_by_group)
    on = tuple(name for name in chosen if name in possible)
    if not on:
        where_possible = f"only on {', '.join(possible)}" if possible else "on no link of this wiring"
        raise FaultSetError(f"{where}: {kind.name} is possible {where_possible}")
    if not grouped and len(on) < len(chosen):
        wrong = ", ".join(sorted(set(chosen) - set(on)))
        raise FaultSetError(
            f"{where}: {kind.name} is impossible on {wrong}, possible only on {', '.join(possible)}"
        )
    return on


def _numbered(entries: Sequence[Any], where: str) -> Iterable[Any]:
    """The entries with every id once: a repeated one gets a number at its end."""
    seen: dict[str, int] = {}
    taken = {entry.id for entry in entries}
    for entry in entries:
        if entry.id.startswith(BUDGET_ID):
            raise FaultSetError(f"{where}: the id {entry.id} is a budget's: let it begin with another word")
        count = seen[entry.id] = seen.get(entry.id, 0) + 1
        name = entry.id if count == 1 else f"{entry.id}-{count}"
        if count > 1 and name in taken:
            raise FaultSetError(f"{where}: the id {name} is there twice")
        yield entry if count == 1 else type(entry)(**{**vars(entry), "id": name})
