"""Fault sets: which faults are armed, where, when and at what. Files (YAML) or Python objects. Pure.

    faults:
      - fault: rate_limit
        links: tools                    # a link, a list of links, tools, model or all
        with: {retry_after: 1}         # the fault's parameters
        when: {probability: 0.3}       # see windtunnel.faults.when
        only: {method: POST, path: /message, json: {to: Bob}}
    toxics:                            # at connection level; the manager arms them
      - toxic: latency
        links: weather
        with: {latency: 500}
        when: {probability: 0.5}       # per attempt and link

``load_set`` reads one; ``FaultSet.dump`` writes its canonical form, which is frozen in a run's row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from proxy_manager.toxics import ToxicSpec, nearest, parse_list, toxic
from windtunnel.catalog import LINKS, MODEL_LINK, TOOL_LINKS, link_of_tool
from windtunnel.faults.base import Fault
from windtunnel.faults.only import Only
from windtunnel.faults.when import When

Registry = Mapping[str, type[Fault]]
_Model = TypeVar("_Model", bound=BaseModel)
_GROUPS = {
    "tools": [link.name for link in TOOL_LINKS],
    "model": [MODEL_LINK.name],
    "all": [link.name for link in LINKS],
}
_NAMES = [link.name for link in LINKS]


class FaultSetError(ValueError):
    """A fault set that cannot be used; the message says which file, which key and what would do."""


@dataclass(frozen=True)
class Entry:
    """A fault, armed on these ``links``, ``when`` it strikes, ``only`` at such requests.

    ``id`` names it in the ledger, and keys its draws: two entries of one set differ in it.
    """

    fault: Fault
    links: tuple[str, ...]
    when: When = field(default_factory=When)
    only: Only = field(default_factory=Only)
    id: str = ""

    @cached_property
    def always(self) -> bool:
        """Whether it strikes whatever it is aimed at."""
        return self.when.certain

    @cached_property
    def aimless(self) -> bool:
        """Whether every request will do."""
        return self.only == Only()

    def dump(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "fault": self.fault.name,
            "links": list(self.links),
            "with": self.fault.model_dump(mode="json", exclude_defaults=True, by_alias=True),
            "when": self.when.model_dump(mode="json", exclude_defaults=True),
            "only": self.only.model_dump(mode="json", exclude_defaults=True, by_alias=True),
        }


@dataclass(frozen=True)
class ToxicEntry:
    """A toxic that an attempt may have on these links, with that chance."""

    spec: ToxicSpec
    links: tuple[str, ...]
    probability: float = 1.0
    id: str = ""

    def dump(self) -> dict[str, Any]:
        spec = self.spec
        one_way = toxic(spec.kind).has_stream and len(spec.streams) == 1
        streams = {"stream": spec.streams[0]} if one_way else {}
        return {
            "id": self.id,
            "toxic": spec.kind,
            "links": list(self.links),
            "with": dict(spec.attributes),
            "when": {"probability": self.probability},
            **streams,
        }


@dataclass(frozen=True)
class FaultSet:
    """What may go wrong, in the order in which it is considered. ``description`` is for people."""

    faults: tuple[Entry, ...] = ()
    toxics: tuple[ToxicEntry, ...] = ()
    description: str = field(default="", compare=False)

    def dump(self) -> str:
        """Canonical JSON, which ``load_set`` reads again to the same set; empty for an empty set."""
        if not self.faults and not self.toxics:
            return ""
        body = {"faults": [e.dump() for e in self.faults], "toxics": [t.dump() for t in self.toxics]}
        return json.dumps({key: value for key, value in body.items() if value}, sort_keys=True)


def load_set(text: str, where: str, registry: Registry) -> FaultSet:
    """Reads YAML or JSON. ``where`` (a file's name) is shown in errors. Raises ``FaultSetError``."""
    try:
        return build_set(json.loads(text), where, registry)  # YAML would take 1e-5 for a text
    except (json.JSONDecodeError, RecursionError):
        pass
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise FaultSetError(f"{where}{line}: not YAML: {getattr(error, 'problem', error)}") from None
    return build_set(value, where, registry)


def build_set(value: Any, where: str, registry: Registry) -> FaultSet:
    """The same from plain data. Raises ``FaultSetError``."""
    top = _mapping(value if value is not None else {}, where, ("faults", "toxics", "description"))
    faults = [
        _entry(one, f"{where}: faults[{number}]", registry)
        for number, one in enumerate(_list(top.get("faults"), f"{where}: faults"), start=1)
    ]
    toxics = [
        _toxic(one, f"{where}: toxics[{number}]")
        for number, one in enumerate(_list(top.get("toxics"), f"{where}: toxics"), start=1)
    ]
    description = str(top.get("description") or "")
    return FaultSet(tuple(_numbered(faults, where)), tuple(_numbered(toxics, where)), description)


def _entry(value: Any, where: str, registry: Registry) -> Entry:
    given = _mapping(value, where, ("fault", "links", "with", "when", "only", "id"))
    name = given.get("fault")
    kind = registry.get(str(name))
    if kind is None:
        raise FaultSetError(f"{where}: fault {name!r} is unknown{nearest(str(name), registry)}")
    fault = _model(kind, given.get("with"), f"{where}: {name}: with")
    when = _model(When, given.get("when"), f"{where}: {name}: when")
    only = _model(Only, given.get("only"), f"{where}: {name}: only")
    on = _links(given.get("links"), kind, f"{where}: {name}: links")
    only, on = _aimed_at_tool(only, on, f"{where}: {name}: only: tool")
    return Entry(fault, on, when, only, str(given.get("id") or name))


def _aimed_at_tool(only: Only, on: tuple[str, ...], where: str) -> tuple[Only, tuple[str, ...]]:
    """A tool's name stands for its link, method and path."""
    if only.tool is None:
        return only, on
    try:
        link, method, path = link_of_tool(only.tool)
    except KeyError as error:
        raise FaultSetError(f"{where}: {error.args[0]}") from None
    if link not in on:
        raise FaultSetError(f"{where}: {only.tool} is on the link {link}, which `links` does not name")
    return only.model_copy(update={"method": only.method or method, "path": only.path or path}), (link,)


def _links(value: Any, kind: type[Fault], where: str) -> tuple[str, ...]:
    """The links meant, those left out on which the fault cannot strike; an error if none is left."""
    names = [value] if isinstance(value, str) else value if value is not None else ["all"]
    chosen = _named_links(names, where)
    possible = {"any": _GROUPS["all"], "tool": _GROUPS["tools"], "model": _GROUPS["model"]}[kind.where]
    on = tuple(name for name in _NAMES if name in chosen and name in possible)
    if not on:
        raise FaultSetError(f"{where}: {kind.name} can strike only on {', '.join(possible)}")
    if isinstance(value, (str, list)) and not (set(names) & set(_GROUPS)) and len(on) < len(chosen):
        wrong = ", ".join(sorted(chosen - set(on)))
        raise FaultSetError(f"{where}: {kind.name} cannot strike on {wrong}, only on {', '.join(possible)}")
    return on


def _named_links(names: Any, where: str) -> set[str]:
    if not isinstance(names, list) or not names:
        raise FaultSetError(f"{where}: must be a link, a list of links, tools, model or all")
    chosen: set[str] = set()
    for name in names:
        group = _GROUPS.get(str(name), [str(name)])
        if group[0] not in _NAMES:
            raise FaultSetError(
                f"{where}: no link is called {name!r}{nearest(str(name), (*_NAMES, *_GROUPS))}"
            )
        chosen.update(group)
    return chosen


def _toxic(value: Any, where: str) -> ToxicEntry:
    given = _mapping(value, where, ("toxic", "links", "stream", "with", "when", "id"))
    kind = str(given.get("toxic"))
    attributes = _mapping(given.get("with") or {}, f"{where}: {kind}: with", None)
    try:
        complete = toxic(kind).complete(attributes)
        streams = parse_list(kind if given.get("stream") is None else f"{kind}@{given['stream']}")[0].streams
    except ValueError as error:
        raise FaultSetError(f"{where}: {error}") from None
    when = _mapping(given.get("when") or {}, f"{where}: {kind}: when", ("probability",))
    chance = _model(When, when, f"{where}: {kind}: when").probability
    names = given.get("links", "tools")
    on = _named_links([names] if isinstance(names, str) else names, f"{where}: {kind}: links")
    ordered = tuple(name for name in _NAMES if name in on)
    return ToxicEntry(ToxicSpec(kind, complete, streams), ordered, chance, str(given.get("id") or kind))


def _numbered(entries: Sequence[Any], where: str) -> Iterable[Any]:
    """Every id once: a repeated one gets its number."""
    seen: dict[str, int] = {}
    taken = {entry.id for entry in entries}
    for entry in entries:
        count = seen[entry.id] = seen.get(entry.id, 0) + 1
        name = entry.id if count == 1 else f"{entry.id}-{count}"
        if count > 1 and name in taken:
            raise FaultSetError(f"{where}: the id {name} is there twice")
        yield entry if count == 1 else type(entry)(**{**vars(entry), "id": name})


def _model(kind: type[_Model], value: Any, where: str) -> _Model:
    """Validated as JSON is: a list may be a tuple, but ``true`` is no number and ``"3"`` neither."""
    given = _mapping(value or {}, where, _keys(kind))
    try:
        return kind.model_validate_json(json.dumps(given, default=str), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(str(part) for part in first["loc"])
        reason = first["msg"].removeprefix("Value error, ")
        raise FaultSetError(f"{where}: {key + ': ' if key else ''}{reason}") from None


def _keys(kind: type[BaseModel]) -> tuple[str, ...]:
    return tuple(info.alias or name for name, info in kind.model_fields.items())


def _mapping(value: Any, where: str, keys: Sequence[str] | None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise FaultSetError(f"{where}: must be a mapping, not {_shown(value)}")
    for key in value:
        if not isinstance(key, str) or (keys is not None and key not in keys):
            raise FaultSetError(f"{where}: {key!r} is no key here{nearest(str(key), tuple(keys or ()))}")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise FaultSetError(f"{where}: must be a list, not {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    return repr(value)[:60]
