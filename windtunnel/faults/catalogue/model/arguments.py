"""Wrong arguments for a tool call, made from the call, the tool's schema and the conversation. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any, Literal

from windtunnel.dialects.json_values import compact, items
from windtunnel.dialects.model_messages import ModelRequest
from windtunnel.faults.base import Try
from windtunnel.faults.catalogue.model.content import pick

Kind = Literal["value", "type", "missing", "extra"]
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_WORD = re.compile(r"[^\W\d_]{3,}")


def damaged(
    values: dict[str, Any], kind: Kind, argument: str | None, tool: str, talk: ModelRequest, this: Try
) -> dict[str, Any] | None:
    """The arguments with one of them wrong; None if none can be made so."""
    if kind == "extra":
        added = argument or "options"
        return None if added in values else {**values, added: "default"}
    name = pick([one for one in values if argument in (None, one)], this.chance("argument"))
    if name is None:
        return None
    if kind == "missing":
        return {key: value for key, value in values.items() if key != name}
    if kind == "type":
        return {**values, name: _retyped(values[name])}
    offered = talk.tool(tool)
    schema = offered.property(name) if offered else {}
    other = pick(_others(values[name], name, schema, talk), this.chance("value"))
    return None if other is None else {**values, name: other}


def _retyped(value: Any) -> Any:
    return [value] if isinstance(value, str) else compact(value)


def _others(value: Any, name: str, schema: dict[str, Any], talk: ModelRequest) -> list[Any]:
    """Other values of the same type, from the best source that has any."""
    allowed = items(schema.get("enum"))
    called = [values.get(name) for call in talk.calls if (values := call.values())]
    for source in (allowed,) if allowed else (called, list(_made(value, talk))):
        found = [one for one in source if type(one) is type(value) and one != value]
        if found:
            return found
    return []


def _made(value: Any, talk: ModelRequest) -> Iterator[Any]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value * 10, value - 1)
    elif isinstance(value, float):
        yield from (value + 1, value * 10, value / 10)
    elif isinstance(value, list):
        yield value[:-1]
    elif isinstance(value, str):
        yield from _texts(value, talk.user)


def _texts(value: str, user: str) -> Iterator[str]:
    """A date moves, a name becomes another one that the user said, other text loses a word or a letter."""
    found = _DATE.search(value)
    if found:
        yield value.replace(found[0], _moved(found[0]))
    elif names := [word for word in _WORD.findall(user)[1:] if word[0].isupper() and word not in value]:
        yield from names
    elif " " in value:
        yield value.rpartition(" ")[0]
    elif len(value) > 1:
        yield value[:-1]


def _moved(day: str) -> str:
    try:
        return (date.fromisoformat(day) + timedelta(days=1)).isoformat()
    except (ValueError, OverflowError):  # no date after all, or the last one
        return day
