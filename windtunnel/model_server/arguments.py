"""Fills the parameters of a tool from a step's text, its context and earlier results."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from windtunnel.model_server import (
    arithmetic,
    bodies,
    choices,
    figures,
    moments,
    money,
    people,
    places,
    queries,
    titles,
    tongues,
)
from windtunnel.model_server.areas import Area
from windtunnel.model_server.findings import Finding, field_named
from windtunnel.model_server.lexicon import wordlist, words
from windtunnel.model_server.names import find_quoted
from windtunnel.model_server.roles import Role, role_of
from windtunnel.model_server.scope import MISSING, Scope
from windtunnel.model_server.toolspec import Param, Tool

Filler = Callable[[Scope, Param, str], Any]


@dataclass(frozen=True)
class Filled:
    """The arguments found; ``missing`` names the required parameters without one; ``leaned``: on earlier
    results."""

    arguments: Mapping[str, Any]
    missing: tuple[str, ...] = ()
    leaned: bool = False


def _string(scope: Scope, param: Param, side: str) -> Any:
    return (
        queries.query(scope, param, side)
        if scope.tool.operation == "read"
        else titles.title(scope, param, side)
    )


# The order matters: what has a form of its own is taken first, free text gets what is left.
_FILLERS: Mapping[str, Filler] = {
    "email": figures.email,
    "url": figures.url,
    "date": moments.day,
    "datetime": moments.moment,
    "time": moments.time_of_day,
    "id": figures.identifier,
    "phone": figures.phone,
    "expression": arithmetic.expression,
    "duration": moments.duration,
    "year": figures.year,
    "currency": money.currency,
    "unit": money.unit,
    "language": tongues.language,
    "recipient": people.recipient,
    "place": places.place,
    "amount": figures.amount,
    "enum": choices.enumerated,
    "boolean": choices.boolean,
    "query": queries.query,
    "body": bodies.body,
    "title": titles.title,
    "string": _string,
}
# what may be taken from anywhere in the request where the step itself does not say it
_WIDE = frozenset(
    wordlist("email url date datetime time id phone year currency language recipient place amount")
)
_ORDER = {kind: index for index, kind in enumerate(_FILLERS)}


def fill(
    tool: Tool,
    text: str,
    context: Sequence[str],
    today: date,
    past: Sequence[Finding] = (),
    refers: bool = False,
    task: str = "",
) -> Filled:
    """The arguments for one call. ``context`` are wider texts, the nearest first, for what the step leaves
    out."""
    scope = Scope([Area(each) for each in (text, *context)], tool, today, past, refers)
    scope.wide = Area(task) if task else None
    roles = {param.name: role_of(param, tool) for param in tool.params}
    for param in sorted(tool.params, key=lambda p: _rank(p, roles[p.name], tool)):
        value = _value(scope, param, roles[param.name])
        if value is not MISSING and value != "":
            scope.assigned[param.name] = value
    missing = tuple(p.name for p in tool.required if p.name not in scope.assigned)
    ordered = {
        param.name: scope.assigned[param.name] for param in tool.params if param.name in scope.assigned
    }
    return Filled(ordered, missing, scope.leaned)


def _rank(param: Param, role: Role, tool: Tool) -> tuple[int, bool, int]:
    order = _ORDER.get(role.kind, len(_ORDER))
    # a translator's languages go after the text was found, a message's body goes before its subject
    return order, not param.required, 1 if role.side == "from" and role.kind == "language" else 0


def _value(scope: Scope, param: Param, role: Role) -> Any:
    if role.kind == "object":
        return _object(scope, param)
    if param.kind == "array":
        return _array(scope, param, role)
    filler = _FILLERS[role.kind]
    value = filler(scope, param, role.side)
    if value is MISSING and param.required:
        value = _linked(scope, param, role)
    if value is MISSING and param.required:
        value = _usual(param, role)
    if value is MISSING and param.required and role.kind in _WIDE:
        scope.widely = True
        value = filler(scope, param, role.side)
        scope.widely = False
    return _typed(value, param)


def _usual(param: Param, role: Role) -> Any:
    """The schema's default; one piece where a quantity is not said."""
    if param.default is not None:
        return param.default
    pieces = {"quantity", "qty", "copies", "count"} & set(words(param.name))
    return 1 if role.kind == "amount" and pieces else MISSING


def _linked(scope: Scope, param: Param, role: Role) -> Any:
    """A value of an earlier result whose key has the parameter's name, or for an id any id."""
    wanted = set(words(param.name)) - {"the", "of", "to", "from"}
    data = [finding.data for finding in reversed(scope.past)]
    specific = wanted - {"id", "name", "number", "code", "date", "time", "text", "value"}
    found = field_named(data, specific) if specific else None
    if found is None:
        found = (
            field_named(data, {param.name.lower()})
            if role.kind in ("id", "email", "phone", "place", "date", "time")
            else None
        )
    if found is None and role.kind in ("id", "email", "phone", "place", "date", "time"):
        found = field_named(data, {role.kind, *({"city", "location"} if role.kind == "place" else ())})
    if found is not None:
        scope.leaned = True
        return found
    quoted = (
        [span for area in scope.areas for span in area.free(find_quoted(area.text))]
        if role.kind in ("string", "place")
        else []
    )
    return quoted[0].value if quoted else MISSING


def _typed(value: Any, param: Param) -> Any:
    """The value in the parameter's JSON type; ``MISSING`` if it cannot be."""
    if value is MISSING:
        return value
    if param.kind == "string" and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if param.kind == "integer" and isinstance(value, float):
        return round(value)
    if param.is_number and isinstance(value, str):
        digits = re.sub(r"[^\d.-]", "", value)
        try:
            return int(digits) if param.kind == "integer" else float(digits)
        except ValueError:
            return MISSING
    return value


def _object(scope: Scope, param: Param) -> Any:
    inner = Tool(scope.tool.name, scope.tool.description, param.properties)
    if not param.properties or not param.required:
        return MISSING
    filled = fill(
        inner, scope.areas[0].text, [a.text for a in scope.areas[1:]], scope.today, scope.past, scope.refers
    )
    return MISSING if filled.missing else dict(filled.arguments)


def _array(scope: Scope, param: Param, role: Role) -> Any:
    """All that suit, one after the other; a list of plain things is what stands between commas and "and"."""
    if param.properties:
        one = _object(
            scope, Param(param.name, kind="object", required=param.required, properties=param.properties)
        )
        return MISSING if one is MISSING else [one]
    single = Param(param.name, param.description, param.items, param.enum, param.required, None, param.format)
    found: list[Any] = []
    if role.kind in ("title", "query", "body", "string"):
        quoted = scope.areas[0].free(find_quoted(scope.areas[0].text))
        if len(quoted) > 1:
            return [span.value for span in quoted]
        text = _FILLERS[role.kind](scope, single, role.side)
        return (
            MISSING
            if text is MISSING
            else [part for part in re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+", str(text)) if part]
        )
    if role.kind == "enum":
        lowered = scope.areas[0].text.lower()
        found = [value for value in param.enum if str(value).lower() in lowered]
        return found or MISSING
    while len(found) < 10:
        value = _typed(_FILLERS[role.kind](scope, single, role.side), single)
        if value is MISSING or value in found:
            break
        found.append(value)
    return found or MISSING
