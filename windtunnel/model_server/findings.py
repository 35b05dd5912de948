"""What the results of tools say: the leaves of their JSON, and the values that a question asks for."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from windtunnel.model_server.lexicon import ABBREVIATIONS, UNIT_SUFFIXES, wordlist, words
from windtunnel.model_server.numbers import tidy
from windtunnel.model_server.toolspec import Tool

META = frozenset(
    wordlist(
        "id lat lon lng latitude longitude coord timestamp ts dt page per_page position "
        "link url created created_at "
        "updated_at request_id search_metadata search_parameters icon cod base visibility "
        "tz_offset success ok q version "
        "source timezone_offset score_id href uuid"
    )
)
_ITEM_KEYS = frozenset(
    wordlist(
        "title name subject body text snippet content summary task item label price date time id message "
        "product description"
    )
)
_TEMPERATURE = frozenset(wordlist("temp temperature feels_like high low temp_min temp_max minimum maximum t"))
_DEGREES = frozenset(("celsius", "fahrenheit", "kelvin", "°c", "°f", "k", "c", "f"))


@dataclass(frozen=True)
class Value:
    """One figure or text that was asked for; ``unit`` as the tool gave it, None if it has none."""

    value: int | float | str
    unit: str | None = None
    label: str = ""

    @property
    def is_number(self) -> bool:
        return isinstance(self.value, int | float)

    @property
    def text(self) -> str:
        """As in a sentence: ``11.3 °C``."""
        unit = {"celsius": "°C", "fahrenheit": "°F"}.get(self.unit or "", self.unit)
        joint = "" if unit == "%" else " "
        return f"{self.value}{joint}{unit}" if unit else str(self.value)


@dataclass(frozen=True)
class Finding:
    """A finished call and what it found for its step. ``sentence`` tells a person, figures included."""

    question: str
    tool: Tool
    arguments: Mapping[str, Any]
    data: Any
    values: tuple[Value, ...] = ()
    sentence: str = ""

    @property
    def writes(self) -> bool:
        return self.tool.writes


@dataclass(frozen=True)
class Leaf:
    path: tuple[str, ...]
    value: Any
    siblings: Mapping[str, Any]

    @property
    def key(self) -> str:
        return self.path[-1] if self.path else ""

    @property
    def tokens(self) -> list[str]:
        """The words of its key, abbreviations written out; of its parent too where the key alone says
        little."""
        listed = words(self.key)
        vague = set(listed) <= {"speed", "value", "amount", "name", "text", "total", "now", "current"}
        if vague and len(self.path) > 1:
            listed = words(self.path[-2]) + listed
        return [ABBREVIATIONS.get(word, word) for word in listed]


def leaves(data: Any, limit: int = 300) -> list[Leaf]:
    """The scalars of the data outside its lists of objects, in order."""
    found = []
    for leaf in _walk(data, (), {}, 0):
        found.append(leaf)
        if len(found) >= limit:
            break
    return found


def _walk(data: Any, path: tuple[str, ...], siblings: Mapping[str, Any], depth: int) -> Iterator[Leaf]:
    if depth > 6:
        return
    if isinstance(data, Mapping):
        near = {
            **siblings,
            **{key: value for key, value in data.items() if isinstance(value, str | int | float)},
        }
        for key, value in data.items():
            yield from _walk(value, (*path, str(key)), near, depth + 1)
    elif isinstance(data, list):
        if len(data) == 1 and isinstance(data[0], Mapping) and not is_item(data[0]):
            yield from _walk(data[0], path, siblings, depth + 1)
        elif data and all(isinstance(each, str | int | float) for each in data):
            yield Leaf(path, ", ".join(str(each) for each in data), siblings)
    elif data is not None and path:
        yield Leaf(path, data, siblings)


def is_item(data: object) -> bool:
    """Whether an object in a list is a thing of its own (an event, a message, a hit)."""
    if not isinstance(data, Mapping):
        return False
    return bool(set(data) & (_ITEM_KEYS - ({"description", "id"} if "main" in data else set())))


def main_list(data: Any) -> list[Any] | None:
    """The list that the answer is about, if it is a list of things or of scalars."""
    if isinstance(data, list):
        return data
    if not isinstance(data, Mapping):
        return None
    lists = [value for value in data.values() if isinstance(value, list)]
    nested = [
        value
        for inner in data.values()
        if isinstance(inner, Mapping)
        for value in inner.values()
        if isinstance(value, list)
    ]
    for listed in [*lists, *nested]:
        if listed and all(is_item(each) for each in listed):
            return listed
    empty = [value for value in lists if not value]
    plain = [value for value in lists if value and all(isinstance(each, str | int | float) for each in value)]
    return plain[0] if plain else empty[0] if empty else None


def unit_of(leaf: Leaf, arguments: Mapping[str, Any]) -> str | None:
    """The unit of a number, from its key, its neighbours or what was asked for; None for a text."""
    if isinstance(leaf.value, bool) or not isinstance(leaf.value, int | float):
        return None
    key = leaf.key.lower()
    last = words(leaf.key)[-1:] or [""]
    if len(words(leaf.key)) > 1 and last[0] in UNIT_SUFFIXES:
        return UNIT_SUFFIXES[last[0]]
    if key in ("humidity", "precipitation_probability", "chance_of_rain", "rain_chance"):
        return "%"
    if key == "pressure":
        return "hPa"
    warm = key in _TEMPERATURE or "temperature" in leaf.tokens
    for sibling in (f"{key}_unit", "unit", "units", "currency", f"{key}_currency", "currency_code"):
        unit = leaf.siblings.get(sibling)
        if isinstance(unit, str) and (sibling != "currency" or not warm) and _suits(unit, warm, sibling):
            return _named(unit, warm)
    return _argued(leaf, arguments, warm)


def _suits(unit: str, warm: bool, sibling: str) -> bool:
    degrees = unit.lower() in _DEGREES or unit.lower() in ("metric", "imperial", "standard")
    return warm == degrees or sibling not in ("unit", "units")


def _named(unit: str, warm: bool) -> str:
    if not warm:
        return unit
    named = {
        "metric": "celsius",
        "imperial": "fahrenheit",
        "standard": "kelvin",
        "c": "celsius",
        "f": "fahrenheit",
        "k": "kelvin",
        "°c": "celsius",
        "°f": "fahrenheit",
    }
    return named.get(unit.lower(), unit)


def _argued(leaf: Leaf, arguments: Mapping[str, Any], warm: bool) -> str | None:
    """The unit that the call asked for: ``units=metric``, ``to_currency=EUR``."""
    count = {
        "count",
        "total",
        "page",
        "year",
        "number",
        "rank",
        "position",
        "quantity",
        "rate",
        "rating",
    } & set(words(leaf.key))
    for name, value in arguments.items():
        listed = set(words(name))
        if not isinstance(value, str) or not listed & {"unit", "units", "currency", "to", "target"}:
            continue
        if warm and value.lower() in (*_DEGREES, "metric", "imperial", "standard"):
            return _named(value, True)
        paired = listed & {"to", "target"}
        if paired and not warm and not count and (listed & {"unit", "units", "currency"} or len(value) <= 12):
            return value
        if listed & {"currency"} and not paired and not listed & {"from", "source", "base"} and not count:
            return value
    return None


def shown(value: Any) -> int | float | str:
    """A scalar as a report shows it; yes and no for booleans."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and math.isfinite(value):
        return tidy(value)
    return value if isinstance(value, int | float | str) else str(value)


def objects(data: Any) -> Sequence[Mapping[str, Any]]:
    """Every object of the data, outermost first."""
    found: list[Mapping[str, Any]] = []
    queue = [data]
    while queue and len(found) < 200:
        each = queue.pop(0)
        if isinstance(each, Mapping):
            found.append(each)
            queue += each.values()
        elif isinstance(each, list):
            queue += each
    return found


def field_named(data: Any, wanted: set[str]) -> Any:
    """The first scalar whose key has one of the wanted words; the key's own words first. None if there is
    none."""
    for each in objects(data):
        for key, value in each.items():
            if (
                isinstance(value, str | int | float)
                and not isinstance(value, bool)
                and wanted & set(words(key))
            ):
                return value
    return None


def plain_text(data: Any) -> str:
    """All text of the data on one line."""
    if isinstance(data, str):
        return re.sub(r"\s+", " ", data).strip()
    return ", ".join(str(leaf.value) for leaf in leaves(data))
