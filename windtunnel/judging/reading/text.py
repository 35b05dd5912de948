"""What texts and numbers have in common with one another: the comparisons of the oracles. Pure.

Texts come from models and tools: they are read with regular expressions that cannot backtrack far, and
never evaluated.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator

from windtunnel.judging.reading.units import UNITS, convert

_DIGITS = r"(?:\d{1,3}(?:,\d{3})++(?!\d)|\d++)(?:\.\d++)?+(?:[eE][-+]?\d++)?+"
# not inside a word, a date (2026-03-05) or a time of day (09:30)
_NUMBER = re.compile(rf"(?<![\w.])(?<!\d[-:/])([-+−]?{_DIGITS})(?![-:/]\d)")
_UNIT = re.compile(r"\s?([°℃℉%€$]?[^\W\d_]*(?:/[^\W\d_]+)?)")
_QUANTITY = re.compile(rf"([-+−]?{_DIGITS})\s*(\D*)")
_EDGES = " \t\r\n.,;:!?'\"“”„‘’«»()[]{}…"


def folded(text: str) -> str:
    """Case folded, in one Unicode form, white space reduced to single spaces and trimmed."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def bare(text: str) -> str:
    """``folded``, without the punctuation around it."""
    return folded(text).strip(_EDGES)


def number_of(digits: str) -> float | None:
    """The number that the digits write, or None if it is too large to be one."""
    value = float(digits.replace(",", "").replace("−", "-"))
    return value if math.isfinite(value) else None


def quantity(text: str) -> tuple[float, str | None] | None:
    """A text that is nothing but a number, or a number and a known unit: ``"11.3"``, ``"11.3 °C"``."""
    match = _QUANTITY.fullmatch(text.strip())
    if not match:
        return None
    unit, value = folded(match[2]), number_of(match[1])
    if value is None or (unit and unit not in UNITS):
        return None
    return value, unit or None


def numbers(text: str, unit: str | None = None) -> Iterator[float]:
    """The numbers that occur in the text, in order; one followed by a unit is converted to ``unit``."""
    for match in _NUMBER.finditer(text):
        value = number_of(match[1])
        if value is None:
            continue
        after = _UNIT.match(text, match.end())
        yield convert(value, after[1] if after else None, unit)


def tolerance_of(expected: float, tolerance: float | None) -> float:
    """The tolerance that holds: as given; else 1e-6 of a whole number, 0.01 for a number with a fraction.

    A whole number given as a float (11.0) counts as one with a fraction.
    """
    if tolerance is not None:
        return tolerance
    return 0.01 if isinstance(expected, float) else abs(expected) * 1e-6


def close(value: float, expected: float, tolerance: float | None) -> bool:
    """Whether the value is within the tolerance; rounding of the difference does not count."""
    allowed = tolerance_of(expected, tolerance)
    return abs(value - expected) <= allowed + 1e-9 * max(1.0, abs(expected))
