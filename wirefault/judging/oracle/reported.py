"""One value of a report as it was read: its text, the quantities in it, and its unit. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wirefault.judging.reading.amounts import in_unit
from wirefault.judging.reading.dates import days_in, times_in
from wirefault.judging.reading.quantities import Quantity, lowered, quantities
from wirefault.judging.reading.text import compared_words, plain

_NO_UNIT = frozenset(
    {"", "none", "null", "n/a", "na", "-", "unitless", "number", "count", "text", "string", "no unit"}
)
_SCALED = re.compile(r"(?:thousand|million|billion|hundred|k|tsd|mio|mrd)\b", re.IGNORECASE)
_SHORT_SCALE = re.compile(r"(?<=\d)\s?([kmb])$", re.IGNORECASE)
_SCALE_WORDS = {"k": "thousand", "m": "million", "b": "billion"}
_LONGEST = 10_000  # characters of one reported value


@dataclass(frozen=True)
class Reported:
    """One value of the report: as a text, and as a number with its unit where it has one.

    ``beside``: the unit as the report gives it apart from the value. ``is_text``: more than one quantity.
    """

    text: str
    number: float | None
    unit: str | None
    beside: str | None = None
    quantities: tuple[Quantity, ...] = ()
    is_text: bool = False


def read_value(entry: Mapping[str, Any]) -> Reported:
    """One entry of a report, ``{"value": number or text, "unit": text or None}``."""
    value, unit = entry.get("value"), entry.get("unit")
    unit = unit if isinstance(unit, str) and unit.strip().casefold() not in _NO_UNIT else None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return Reported("", None, unit, unit)  # a list or an object is no value
    text = value[:_LONGEST] if isinstance(value, str) else _digits_of(value)
    if unit and _SCALED.match(unit.strip()):  # 4.2 and "thousand euros"
        text, unit = f"{text} {unit}", None
    if unit:  # 3.4M with a unit beside it is no length
        text = _SHORT_SCALE.sub(lambda scale: f" {_SCALE_WORDS[scale[1].casefold()]}", text)
    seen = plain(text)
    there = tuple(in_unit(quantities(seen), unit))
    if not there:
        return Reported(text, None, unit, unit, is_text=bool(compared_words(seen)) and not _is_moment(seen))
    first = there[0].readings[0]
    is_text = isinstance(value, str) and not _is_quantity(seen, there) and not _is_moment(seen)
    return Reported(text, first.value, first.unit.name if first.unit else None, unit, there, is_text)


def _digits_of(value: int | float) -> str:
    """A number as ``float`` prints it; one too large to be written out is no answer to anything."""
    try:
        return repr(value) if isinstance(value, float) else str(value)
    except ValueError:
        return ""


def _is_quantity(text: str, there: Sequence[Quantity]) -> bool:
    """Whether a text is nothing but one number, with or without a unit."""
    return (
        len(there) == 1
        and len(compared_words(text[: there[0].start])) + len(compared_words(text[there[0].end :])) == 0
    )


def _is_moment(text: str) -> bool:
    low = lowered(text.strip())
    return any(moment.end - moment.start == len(low) for moment in (*days_in(low), *times_in(low)))
