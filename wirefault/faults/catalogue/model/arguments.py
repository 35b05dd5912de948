"""Wrong arguments for a tool call, made from the call, the tool's schema and the conversation. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any, Literal

from wirefault.dialects.base import ModelRequest
from wirefault.dialects.json_values import as_list, compact
from wirefault.faults.base import Try
from wirefault.faults.catalogue.model.content import choose_if_any

ArgumentDamage = Literal["value", "type", "missing", "extra"]
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_WORD = re.compile(r"[^\W\d_]{3,}")


def damaged(
    values: dict[str, Any],
    kind: ArgumentDamage,
    argument: str | None,
    tool: str,
    request: ModelRequest,
    tried: Try,
) -> dict[str, Any] | None:
    """The arguments with one of them wrong; None if none can be made wrong in that way."""
    if kind == "extra":
        added = argument or "options"
        return None if added in values else {**values, added: "default"}
    name = choose_if_any([name for name in values if argument in (None, name)], tried.chance("argument"))
    if name is None:
        return None
    if kind == "missing":
        return {key: value for key, value in values.items() if key != name}
    if kind == "type":
        return {**values, name: _retyped(values[name])}
    offered = request.tool(tool)
    schema = offered.property(name) if offered else {}
    other = choose_if_any(_others(values[name], name, schema, request), tried.chance("value"))
    return None if other is None else {**values, name: other}


def _retyped(value: Any) -> Any:
    return [value] if isinstance(value, str) else compact(value)


def _others(value: Any, name: str, schema: dict[str, Any], request: ModelRequest) -> list[Any]:
    """Other values of the same type, from the best source that has any."""
    allowed = as_list(schema.get("enum"))
    called = [values.get(name) for call in request.calls if (values := call.values())]
    for source in (allowed,) if allowed else (called, list(_altered(value, request))):
        others = [other for other in source if type(other) is type(value) and other != value]
        if others:
            return others
    return []


def _altered(value: Any, request: ModelRequest) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value * 10, value - 1)
    elif isinstance(value, float):
        yield from (value + 1, value * 10, value / 10)
    elif isinstance(value, list):
        yield value[:-1]
    elif isinstance(value, str):
        yield from _texts(value, request.user)


def _texts(value: str, user: str) -> Iterator[str]:
    """A date moves, a name becomes another one of the user's message, other text loses a word or a letter."""
    day = _DATE.search(value)
    if day:
        yield value.replace(day[0], _moved(day[0]))
    elif names := [word for word in _WORD.findall(user)[1:] if word[0].isupper() and word not in value]:
        yield from names
    elif " " in value:
        yield value.rpartition(" ")[0]
    elif len(value) > 1:
        yield value[:-1]


def _moved(day: str) -> str:
    try:
        return (date.fromisoformat(day) + timedelta(days=1)).isoformat()
    except (ValueError, OverflowError):  # no date of the calendar, or its last one
        return day
