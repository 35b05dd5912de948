"""What is known under the name that a form has for it, in the form's type and limits. Pure."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Mapping
from typing import Any

from windtunnel.dialects.json_values import as_text
from windtunnel.model_server.forms import words_of

PLAIN_WORDS = {*words_of("name value current final short brief the of in")}
_SAME = {"temp": "temperature", "desc": "description", "qty": "quantity", "location": "city", "place": "city"}
_UNITS = {*words_of("c f celsius fahrenheit kmh kph mph km kg usd eur percent pct")}
_BOUNDS = {"minimum": operator.ge, "maximum": operator.le}
_BOUNDS |= {"exclusiveMinimum": operator.gt, "exclusiveMaximum": operator.lt}
_LENGTHS = {
    "minLength": operator.ge,
    "maxLength": operator.le,
    "minItems": operator.ge,
    "maxItems": operator.le,
}
_DATE, _TIME = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?"
_FORMATS = {"date": _DATE, "time": _TIME, "date-time": f"{_DATE}[T ]{_TIME}"}
NOTHING: Any = object()


def find_known(name: str, known: Mapping[str, Any]) -> Any:
    """What is known under that name; words that change no meaning (name, value, the unit) do not count."""
    plain = PLAIN_WORDS | _key_of(as_text(known.get("unit")))
    asked, near = _key_of(name), []
    for key, value in known.items():
        held = _key_of(key)
        if held and held == asked and value is not None:
            return value
        # a result's key may name its unit where the form does not; the other way round it would be a claim
        if asked - held <= plain and held - asked <= plain | _UNITS and held & asked - plain:
            near.append(value)
    return near[0] if near and all(value == near[0] for value in near) else NOTHING


def _key_of(name: str) -> set[str]:
    """The words of a name, without plurals and in one of the words that mean the same."""
    return {_SAME.get(word, re.sub(r"(?<![us])s$", "", word)) for word in words_of(name)}


def to_type(value: Any, kind: Any, allowed: list[Any]) -> Any:
    """The value in that JSON type; ``NOTHING`` if it cannot be had without a change of meaning."""
    if value is NOTHING or value is None or isinstance(value, dict | list):
        return NOTHING
    if allowed:
        return next((each for each in allowed if str(each).lower() == str(value).lower()), NOTHING)
    if kind == "string":
        return value if isinstance(value, str) else json.dumps(value)
    if kind in ("number", "integer"):
        if isinstance(value, str) and re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?", value):
            value = json.loads(value)
        if isinstance(value, bool) or not isinstance(value, float | int):
            return NOTHING
        return value if kind == "number" else int(value) if value % 1 == 0 else NOTHING
    return value if kind is None or (kind == "boolean" and isinstance(value, bool)) else NOTHING


def keeps_limits(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether the value keeps the schema's limits."""
    try:
        form = _FORMATS.get(schema.get("format", ""), "(?s:.*)")
        return (
            all(keeps(value, schema[key]) for key, keeps in _BOUNDS.items() if key in schema)
            and all(keeps(len(value), schema[key]) for key, keeps in _LENGTHS.items() if key in schema)
            and (not isinstance(value, str) or re.fullmatch(form, value) is not None)
            and re.search(schema.get("pattern", ""), str(value)) is not None
        )
    except (TypeError, re.error):  # a limit of another type than the value's
        return False
