"""Fault sets: which faults, on which links, when, and at which requests. Files or Python objects. Pure.

    faults:
      - fault: rate_limit
        links: tools                    # a link, a list of links, tools, writes, model or all
        with: {retry_after: 1}         # the fault's parameters
        when: {probability: 0.3}       # see wirefault.faults.sets.conditions
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
None they are not checked again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Any

from wirefault.core.errors import nearest
from wirefault.core.plain_data import PlainDataError, plain_data, read_yaml
from wirefault.core.plugins import PluginError
from wirefault.core.spans import Span
from wirefault.dialects.mcp import CALL
from wirefault.faults.base import BUDGET_ID, Fault
from wirefault.faults.sets.conditions import (
    TOOL_FIELD,
    FaultSetError,
    Only,
    When,
    checked_mapping,
    checked_model,
    list_or_empty,
    required_name,
    text_or,
)
from wirefault.faults.sets.dose import Dose, dose_of
from wirefault.toxiproxy.toxics import TOXICS, toxic
from wirefault.toxiproxy.toxics.text_form import ToxicSpec, streams_of
from wirefault.wiring.links import (
    FOUND_MODELS,
    FOUND_TOOLS,
    FOUND_WRITES,
    FUNCTIONS_NAME,
    MODEL_NAMES,
    Links,
)


def named_links(given: Any, where: str, links: Links | None) -> tuple[tuple[str, ...], bool]:
    """The named links in the wiring's order, and whether the names include a group."""
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or not names:
        raise FaultSetError(f"{where}: must be a link, a list of links, tools, writes, model or all")
    if links is None:
        return tuple(map(str, names)), False
    chosen: set[str] = set()
    for name in names:
        group = links.groups.get(name) if isinstance(name, str) else None
        to_be_found = links.grows and name in links.found_by_group
        if group is None and name not in links and not to_be_found:
            problem = links.why_never_found(str(name))
            if problem:
                raise FaultSetError(f"{where}: {problem}")
        if group is not None and links.grows:  # the group to be found has these links already
            group = tuple(one for one in group if one not in links.by_request)
        chosen.update((name,) if group is None else group)
    awaited = [str(name) for name in names if links.may_be_found(str(name))]
    order = dict.fromkeys((*links.eligible_names, FOUND_WRITES, *awaited))
    return tuple(name for name in order if name in chosen), bool({"tools", "writes", "all"} & set(names))


MAX_CHAOS_LEVEL = 2.0


@dataclass(frozen=True)
class ToxicEntry:
    """A toxic that an attempt may have on these links, with a probability.

    ``turn``: the user's turns in which it is in force; None for all. ``only``: the episodes.
    """

    spec: ToxicSpec
    links: tuple[str, ...]
    probability: float = 1.0
    id: str = ""
    dose: Dose = field(default_factory=Dose)
    turn: tuple[int, int | None] | None = None
    only: Only = field(default_factory=Only)

    @property
    def spans(self) -> Sequence[Span]:
        """When it is in force in its attempt; empty: throughout."""
        return self.dose.spans

    @property
    def together(self) -> bool:
        """Whether one draw serves all its links."""
        return self.dose.together

    def strikes(self, episode: str) -> bool:
        """Whether an attempt of that episode may have it."""
        return self.only.in_episode(episode)

    def dump(self) -> dict[str, Any]:
        spec = self.spec
        one_way = toxic(spec.kind).has_stream and len(spec.streams) == 1
        streams = {"stream": spec.streams[0]} if one_way else {}
        turn = {} if self.turn is None else {"turn": list(self.turn)}
        only = self.only.model_dump(mode="json", exclude_defaults=True)
        return {
            "id": self.id or spec.kind,
            "toxic": spec.kind,
            "links": list(self.links),
            "with": dict(spec.attributes),
            "when": {"probability": self.probability, **turn},
            **({"only": only} if only else {}),
            **self.dose.model_dump(mode="json", exclude_defaults=True),
            **streams,
        }


def toxic_entry(value: Any, where: str, wired: Links | None) -> ToxicEntry:
    """Read a toxic's entry for these links. Raises ``FaultSetError``."""
    given = checked_mapping(
        value, where, ("toxic", "links", "stream", "with", "when", "only", "id", *Dose.model_fields)
    )
    kind = required_name(given, "toxic", (toxic.kind for toxic in TOXICS), where)
    at = f"{where}: {kind}"
    links = given.get("links")
    on, _ = named_links("tools" if links is None else links, f"{at}: links", wired)
    if wired is not None and wired.grows:
        on = _without_found_writes(on, [links] if isinstance(links, str) else links or (), f"{at}: links")
    if not on:
        raise FaultSetError(f"{at}: links: no such link in this wiring")
    checked_mapping(given.get("when"), f"{at}: when", ("probability", "turn"))
    when = checked_model(When, given.get("when"), f"{at}: when")
    checked_mapping(given.get("only"), f"{at}: only", ("episodes",))
    only = checked_model(Only, given.get("only"), f"{at}: only")
    name = text_or(kind, given.get("id"), f"{at}: id")
    dose = dose_of(given, at)
    spec = _possible(_spec(kind, given, where), dose, at)
    return ToxicEntry(spec, on, when.probability, name, dose, when.turn, only)


def _without_found_writes(on: tuple[str, ...], names: Sequence[str], where: str) -> tuple[str, ...]:
    """The links without probable writes, which no toxic can select: it acts on connections."""
    others = tuple(name for name in on if name != FOUND_WRITES)
    if on and not others:
        raise FaultSetError(
            f"{where}: a toxic acts on a connection, also on the reads on it: write links: tools, or take a"
            " fault for the writes, such as lose_reply"
        )
    return others


def _possible(spec: ToxicSpec, dose: Dose, at: str) -> ToxicSpec:
    """The spec as it can be carried out in that dose."""
    known = toxic(spec.kind)
    if dose.from_first_met:
        raise FaultSetError(
            f"{at}: during: start: first_met is for faults, since the gateway sees their calls: give a toxic"
            " seconds or calls, or take a fault such as unavailable, delay or hang"
        )
    if dose.rises and known.at_share(spec.attributes, 1.0) is None:
        raise FaultSetError(f"{at}: during: {spec.kind} has no partial dose: leave ramp out")
    if not dose.by_calls:
        return spec
    if not known.lets_requests_pass or "downstream" not in spec.streams:
        held_back = f"{spec.kind}{'' if 'downstream' in spec.streams else ' upstream'}"
        raise FaultSetError(
            f"{at}: during: {held_back} keeps requests from the gateway, which cannot count the calls:"
            " give seconds, or take a fault with the same during, such as unavailable or lose_reply"
        )
    if known.closes_when_removed and any(span.duration for span in dose.spans):
        raise FaultSetError(
            f"{at}: during: the end of {spec.kind} closes the connection of the next call too:"
            " leave duration out, give seconds, or take a fault with the same during: hang"
        )
    return replace(spec, streams=("downstream",))  # the gateway has the request: only its reply is to come


def _spec(kind: str, given: Mapping[str, Any], where: str) -> ToxicSpec:
    try:
        known = toxic(kind)
    except ValueError as error:
        raise FaultSetError(f"{where}: {error}") from None
    at = f"{where}: {kind}"
    attributes = checked_mapping(given.get("with"), f"{at}: with", None)
    try:
        complete = known.complete(attributes, f"{at}: with")
        return ToxicSpec(kind, complete, streams_of(known, given.get("stream"), f"{at}: stream"))
    except ValueError as error:
        raise FaultSetError(str(error)) from None


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
    named: tuple[str, ...] = ()
    """Its links before those that were found at run time took the places of their groups."""
    tools_only: frozenset[str] = frozenset()
    """The links, found at run time, on which it strikes only requests that ask no model."""
    models_only: frozenset[str] = frozenset()
    """Those on which it strikes only requests that ask a model."""
    writes_only: frozenset[str] = frozenset()
    """Those on which it strikes, of the requests that ask no model, only probable writes."""
    functions: frozenset[str] = frozenset()
    """Those whose calls are functions; set if it selects a tool, whose name is the path there."""

    def strikes(self, link: str, *, of_model: bool) -> bool:
        """Whether requests of that kind on that link of it are eligible."""
        return link not in (self.tools_only if of_model else self.models_only)

    def names(self, link: str) -> bool:
        """Whether it names the link, or a function of it, and not only a group of links."""
        return link in self.named or link in self.functions

    @property
    def certain(self) -> bool:
        """Whether every eligible try meets it, which makes it an always-on fault."""
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
    """Faults and toxics in the order in which they are considered. ``description`` is for people."""

    faults: tuple[Entry, ...] = ()
    toxics: tuple[ToxicEntry, ...] = ()
    description: str = field(default="", compare=False)

    @property
    def ids(self) -> list[str]:
        """Ids of its faults, then of its toxics."""
        return [fault.id for fault in self.faults] + [toxic.id for toxic in self.toxics]

    @property
    def can_be_met(self) -> bool:
        """Whether any entry has a probability above 0."""
        return any(e.when.probability for e in self.faults) or any(t.probability for t in self.toxics)

    def on(self, links: Links) -> FaultSet:
        """The set with placeholder names replaced by the found links."""
        faults = tuple(_entry_on(e, links) for e in self.faults)
        toxics = tuple(
            replace(e, links=_present(_expanded(e.links, links.found_by_group), links)) for e in self.toxics
        )
        return FaultSet(faults, toxics, self.description)

    def awaited_names(self, links: Links) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The links that its faults, and those that its toxics name, and that ``links`` does not have."""
        faults, toxics = (
            tuple(dict.fromkeys(name for e in of for name in e.links if _is_awaited(name, links)))
            for of in (self.faults, self.toxics)
        )
        return faults, toxics

    def dump(self) -> str:
        """Canonical JSON, which ``load_set`` reads to an equal set; empty for an empty set."""
        if not self.faults and not self.toxics:
            return ""
        body = {"faults": [e.dump() for e in self.faults], "toxics": [t.dump() for t in self.toxics]}
        return json.dumps({key: value for key, value in body.items() if value}, sort_keys=True)


def _expanded(names: Sequence[str], found: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(link for name in names for link in found.get(name, (name,))))


def _present(names: Sequence[str], links: Links) -> tuple[str, ...]:
    """The names of links that exist: a toxic acts on no other."""
    return tuple(name for name in names if name in links)


def _is_awaited(name: str, links: Links) -> bool:
    return name not in links and name not in links.found_by_group


def _entry_on(entry: Entry, links: Links) -> Entry:
    on = _expanded(entry.links, links.found_by_requests)
    by_request = links.by_request.intersection(on)
    groups, where = set(entry.links), entry.fault.where
    writes: frozenset[str] = frozenset()
    if FOUND_WRITES in groups and FOUND_TOOLS not in groups:
        writes = frozenset(links.found_by_requests[FOUND_WRITES]) - groups
    functions = links.function_names.intersection(on) if entry.only.tool is not None else frozenset()
    entry = replace(entry, links=on, named=entry.links, writes_only=writes, functions=functions)
    if not by_request:
        return entry
    named = groups & by_request
    as_tools = by_request if groups & {FOUND_TOOLS, FOUND_WRITES} else named
    as_models = by_request if FOUND_MODELS in groups else named
    tools_only = by_request if where in ("tool", "mcp") else by_request - as_models
    models_only = by_request if where == "model" else by_request - as_tools
    return replace(entry, tools_only=tools_only, models_only=models_only)


def load_set(text: str, where: str, registry: Registry, links: Links | None) -> FaultSet:
    """Read YAML or JSON. ``where`` (a file's name) is shown in errors. Raises ``FaultSetError``."""
    return build_set(_checked_data(read_yaml, text, where), where, registry, links)


def build_set(value: Any, where: str, registry: Registry, links: Links | None) -> FaultSet:
    """Build a set from plain data. Raises ``FaultSetError``."""
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
        raise FaultSetError(f"{where}: unknown fault {name!r}{nearest(name, registry)}")
    fault = checked_model(kind, given.get("with"), f"{where}: {name}: with")
    when = checked_model(When, given.get("when"), f"{where}: {name}: when")
    only = checked_model(Only, given.get("only"), f"{where}: {name}: only")
    on = _links(given.get("links"), kind, f"{where}: {name}: links", links)
    if links is not None and all(_is_functions(each, links) for each in on):
        _check_on_functions(kind, only, f"{where}: {name}")
    only, on = _narrowed_to_tool(only, on, f"{where}: {name}: only: tool", links)
    named = text_or(name, given.get("id"), f"{where}: {name}: id")
    return Entry(fault, on, when, only, named, dose_of(given, f"{where}: {name}"))


def _is_functions(name: str, links: Links) -> bool:
    """Whether its calls are functions of the subject, now or once it is found."""
    return name in links.function_names or (name == FUNCTIONS_NAME and links.may_be_found(name))


def _check_on_functions(kind: type[Fault], only: Only, where: str) -> None:
    """Raise ``FaultSetError`` if no call of a function can meet the fault."""
    if kind.where in ("model", "mcp") or kind.family == "websocket":
        raise FaultSetError(f"{where}: links: {kind.name} is impossible on calls of functions")
    method = (only.method or "*").upper()
    if only.tool is None and not any(fnmatchcase(each, method) for each in ("POST", "QUERY")):
        raise FaultSetError(
            f"{where}: only: method: a function is called by POST, or by QUERY if it only reads, never by"
            f" {only.method}"
        )


def _narrowed_to_tool(
    only: Only, on: tuple[str, ...], where: str, links: Links | None
) -> tuple[Only, tuple[str, ...]]:
    """The selectors and links with a tool's name replaced by its method, path and link."""
    if only.tool is None or links is None:
        return only, on
    # the tools of an MCP server and of a subject's functions are known only later
    by_name = {*links.mcp_names, *links.function_names}
    later = tuple(name for name in on if name in by_name or links.may_be_found(name))
    if later and only.tool not in links.declared_tools:
        if only.method is not None and only.method.upper() not in ("POST", "QUERY", CALL.upper()):
            raise FaultSetError(f"{where}: {only.tool} is called by POST or {CALL}, never by {only.method}")
        called = {**only.json_, TOOL_FIELD: only.tool}
        return only.model_copy(update={"method": CALL, "json_": called}), later
    try:
        link, method, path = links.tool_link(only.tool)
    except KeyError as error:
        raise FaultSetError(f"{where}: {error.args[0]}") from None
    if link not in on:
        raise FaultSetError(f"{where}: {only.tool} is on the link {link}, which `links` does not name")
    if only.method is not None and only.method.upper() != method:
        raise FaultSetError(f"{where}: {only.tool} is called by {method}, never by {only.method}")
    return only.model_copy(update={"method": method, "path": only.path or path}), (link,)


def _links(value: Any, kind: type[Fault], where: str, links: Links | None) -> tuple[str, ...]:
    """The named links on which the fault is possible. Raises ``FaultSetError`` if there are none."""
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
    if kind.where == "mcp" and kind.lab_only:  # a found server is never the lab's
        possible = tuple(name for name in possible if name not in links.found_by_group)
    on = tuple(name for name in chosen if name in possible or _may_become_possible(name, kind, links))
    if not on:
        where_possible = f"only on {_in_words(possible)}" if possible else "on no link of this wiring"
        raise FaultSetError(f"{where}: {kind.name} is possible {where_possible}")
    if not grouped and len(on) < len(chosen):
        wrong = ", ".join(sorted(set(chosen) - set(on)))
        raise FaultSetError(
            f"{where}: {kind.name} is impossible on {wrong}, possible only on {_in_words(possible)}"
        )
    return on


def _in_words(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(name.removeprefix("found:") for name in names))


def _may_become_possible(name: str, kind: type[Fault], links: Links) -> bool:
    """Whether a link that is not found yet may be one of the fault's: a provider's carries models alone."""
    if not links.may_be_found(name):
        return False
    if kind.where in ("tool", "mcp") and name in MODEL_NAMES:
        return False
    return not (kind.where == "mcp" and kind.lab_only)


def _numbered(entries: Sequence[Any], where: str) -> Iterable[Any]:
    """The entries with unique ids: a repeated id gets a number."""
    seen: dict[str, int] = {}
    taken = {entry.id for entry in entries}
    for entry in entries:
        if entry.id.startswith(BUDGET_ID):
            raise FaultSetError(f"{where}: the id {entry.id} is reserved for budgets: choose another")
        count = seen[entry.id] = seen.get(entry.id, 0) + 1
        name = entry.id if count == 1 else f"{entry.id}-{count}"
        if count > 1 and name in taken:
            raise FaultSetError(f"{where}: duplicate id {name}")
        yield entry if count == 1 else type(entry)(**{**vars(entry), "id": name})


def scaled(faults: FaultSet, level: float) -> FaultSet:
    """Multiply every probability by ``level``, up to 1; entries with probability 0 are dropped."""
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
    """The ids of entries whose probability at this level is limited to 1."""
    entries = [entry.id for entry in faults.faults if entry.when.probability * level > 1]
    return entries + [toxic.id for toxic in faults.toxics if toxic.probability * level > 1]
