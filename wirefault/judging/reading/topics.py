"""Find the topic of a quantity, and recognise changes, directions, waits and "free". Pure.

``low`` is a text in lower case. The words are in the language files.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from wirefault.judging.reading.context import clause_of, sentence_around
from wirefault.judging.reading.languages import LazyPattern
from wirefault.judging.reading.quantities import Quantity, in_units
from wirefault.judging.reading.units import Unit, unit_words

Change = Literal["up", "down"]

_TOPICS = tuple(
    (LazyPattern(rf"\b<topic_{dimension}>\b"), dimension)
    for dimension in ("temperature", "share", "speed", "pressure", "length", "angle", "duration", "other")
)
_WAITING = LazyPattern(r"\b<waiting>\s+(?:<approximate>\s+)?$")
_SPEED_BEFORE = LazyPattern(
    r"(?:/s|/h|mph|kph|kmh|knots?|kts?|kn|second|seconde|hour|heure|hora|stunde)\s+<wind_from>\s+$"
)
_DIRECTION_AFTER = LazyPattern(r"^\s(?:<direction_after>)\b")

_AMOUNT = r"\s+(?:<approximate>\s+)?[\"'$€£]?$"
_BY = LazyPattern(rf"\b<by>{_AMOUNT}")
_CHANGES: tuple[tuple[Change, LazyPattern, LazyPattern, LazyPattern, LazyPattern], ...] = (
    (
        "down",
        LazyPattern(rf"(?<![^\W\d_])<fell_by>{_AMOUNT}"),
        LazyPattern(rf"(?<![^\W\d_])<fell>{_AMOUNT}"),
        LazyPattern(r"^\s(?:[^\W\d_]+\s){0,2}?<fallen>\b"),
        LazyPattern(r"^\s<less>\b"),
    ),
    (
        "up",
        LazyPattern(rf"(?<![^\W\d_])<rose_by>{_AMOUNT}"),
        LazyPattern(rf"(?<![^\W\d_])<rose>{_AMOUNT}"),
        LazyPattern(r"^\s(?:[^\W\d_]+\s){0,2}?<risen>\b"),
        LazyPattern(r"^\s<more>\b"),
    ),
)
_AROUND = 80  # characters in which words of a change are searched

_MAX_PLACES = 200  # in one text; more is not an answer
_FREE = LazyPattern(r"(?<![\w-])<free>(?![\w-])")
_PERHAPS_FREE = LazyPattern(r"(?<![\w-])<perhaps_free>(?![\w-])")

_KEY = re.compile(
    r"(?:\"(?P<quoted>[A-Za-z][\w -]{0,60})\"|'(?P<single>[A-Za-z][\w -]{0,60})'"
    r"|(?<![\w.])(?P<bare>[A-Za-z]\w{0,60}))"
    r"\s*[:=]\s*[\"']?$"
)
_NESTED_KEY = re.compile(r"\"(?P<outer>[A-Za-z]\w{0,60})\"\s*:\s*\{[^{}]*$")
_KEY_TOKEN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_IS_IDENTIFIER = re.compile(r"_|[a-z][A-Z]")
_MAX_KEY = 200  # characters before a number in which its key is searched
# a key may end with these words without a unit: they are units only after a word for their quantity
_NEEDS_TOPIC = frozenset(
    {"second", "minute", "min", "hour", "day", "week", "month", "year", "bar", "foot", "yard", "mile", "in"}
)


def topic_of(text: str) -> str | None:
    """Return the dimension of the last word for a quantity in a text; None if there is none."""
    last = ("", -1)
    for pattern, dimension in _TOPICS:
        for match in pattern.finditer(text):
            last = max(last, (dimension, match.start()), key=lambda topic: topic[1])
    return last[0] or None


def is_of_other_topic(own: Collection[str], low: str, quantity: Quantity) -> bool:
    """Return whether a number belongs to another topic: ``humidity 71`` is not a temperature.

    ``own``: the requested dimensions.
    """
    sentence = sentence_around(low, quantity.start, quantity.end)
    before = clause_of(*sentence)[0]
    if not before.strip(" :\"'|"):
        before = sentence[0]
    topic = topic_of(before)
    return topic is not None and topic not in own


def is_direction(low: str, quantity: Quantity) -> bool:
    """Return whether degrees without a scale are a direction: ``wind 3.2 m/s at 30 degrees``."""
    if not all(reading.unit and reading.unit.name == "degree" for reading in quantity.readings):
        return False
    before, after = low[max(0, quantity.start - 60) : quantity.start], low[quantity.end : quantity.end + 40]
    return (
        _SPEED_BEFORE.search(before) is not None
        or _DIRECTION_AFTER.match(after) is not None
        or is_of_other_topic({"temperature"}, low, quantity)
    )


def is_wait(low: str, quantity: Quantity) -> bool:
    """Return whether the quantity is a wait: ``in 10 minutes``."""
    spans = any(reading.unit and reading.unit.dimension == "duration" for reading in quantity.readings)
    return spans and _WAITING.search(low[max(0, quantity.start - 40) : quantity.start]) is not None


def change_of(low: str, quantity: Quantity) -> Change | None:
    """Return the direction of a change, ``fell by 12.5 %`` or ``12.5 % lower``; None for a level."""
    before = low[max(0, quantity.start - _AROUND) : quantity.start]
    after = low[quantity.end : quantity.end + _AROUND]
    units = {reading.unit.dimension for reading in quantity.readings if reading.unit}
    of_scale = any(each in ("share", "temperature") or each.startswith("currency") for each in units)
    for change, changed_by, changed, changed_after, compared in _CHANGES:
        if changed_by.search(before) or compared.match(after):
            return change
        if (of_scale and changed.search(before)) or (_BY.search(before) and changed_after.match(after)):
            return change
    return None


@dataclass(frozen=True)
class FreeOfCharge:
    """A place where a text says that something costs nothing."""

    start: int
    end: int
    is_certain: bool  # False if the word may mean something else: "free delivery", "free seats"


def free_of_charge(low: str) -> Iterator[FreeOfCharge]:
    """Yield the places where a text says, or may say, that something costs nothing."""
    certain = [match.span() for match in islice(_FREE.finditer(low), _MAX_PLACES)]
    yield from (FreeOfCharge(start, end, True) for start, end in certain)
    for match in islice(_PERHAPS_FREE.finditer(low), _MAX_PLACES):
        if not any(start <= match.start() < end for start, end in certain):
            yield FreeOfCharge(match.start(), match.end(), False)


def with_key_units(text: str, mentions: Sequence[Quantity]) -> list[Quantity]:
    """Give numbers without a unit the unit in their key: ``"temp_f": 71.6``, ``height_m=330``."""
    keyed = ((each, _key_units(text[max(0, each.start - _MAX_KEY) : each.start])) for each in mentions)
    return [in_units(each, units) if units else each for each, units in keyed]


def _key_units(before: str) -> tuple[Unit, ...]:
    key = _KEY.search(before)
    if key is None or (key["bare"] and not _IS_IDENTIFIER.search(key["bare"])):
        return ()
    outer = _NESTED_KEY.search(before[: key.start()])
    name = key["quoted"] or key["single"] or key["bare"]
    words = [word.casefold() for word in _KEY_TOKEN.findall(f"{outer['outer']}_{name}" if outer else name)]
    for size in (3, 2, 1):
        stem, unit = words[:-size], words[-size:]
        if len(unit) < size or (stem and stem[-1] == "per"):
            continue
        spellings = (" ".join(unit), "/".join(unit))
        units = next((unit_words()[each] for each in spellings if each in unit_words()), ())
        if units:
            return _fitting(units, spellings[0], topic_of(" ".join(stem)))
    return ()


def _fitting(units: tuple[Unit, ...], word: str, topic: str | None) -> tuple[Unit, ...]:
    """Return the units that the last word of a key means. ``topic``: topic of the words before it."""
    if word == "ms" and topic == "speed":
        return unit_words()["m/s"]
    of_topic = tuple(unit for unit in units if unit.dimension == topic)
    if len(word) == 1 or word in _NEEDS_TOPIC:
        return of_topic
    is_price = units[0].dimension.startswith("currency") and topic == "other"
    return units if topic is None or is_price else of_topic
