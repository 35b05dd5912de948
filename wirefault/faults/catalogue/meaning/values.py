"""Faults of a result's figures, units and dates."""

from __future__ import annotations

import math
import re
from datetime import date, timedelta
from typing import Any

from wirefault.faults.catalogue.meaning.result import (
    Leaf,
    MeaningFault,
    Ranks,
    ResultTree,
    divided,
    leaves_of,
    unlike_the_question,
)

_NUMBER = re.compile(r"(?<![\w:.,/-])\d+(?:\.\d+)?(?![\w:/-]|[.,]\d)")
_DATE = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
_YEAR = re.compile(r"(?<![\d.,/-])(1[89]\d\d|20\d\d)(?![\d.,/-]\d|\d)")


def is_number(value: Any) -> bool:
    finite = not isinstance(value, float) or math.isfinite(value)
    return isinstance(value, (int, float)) and not isinstance(value, bool) and finite


class WrongValue(MeaningFault):
    """Change a figure in the result.

    It is off by a factor: 1.02 at severity 0, 2.4 at 0.5, 100 at 1 (1 + 0.02 * 4950 ** severity). Zero
    becomes the factor minus one. Integers stay integers. If no field is a number, a number in a text is
    changed.
    """

    name = "wrong_value"

    def candidates(self, result: ResultTree) -> Ranks:
        """The leaves with a number, best first: figures, texts with a figure, counters.

        Leaves that repeat the question come last, in the same order.
        """
        leaves = [leaf for leaf in leaves_of(result.document) if leaf.value is not None]
        numbers = [leaf for leaf in leaves if is_number(leaf.value)]
        telling, technical = divided(numbers, lambda leaf: leaf.telling)
        texts = [leaf for leaf in leaves if isinstance(leaf.value, str) and _NUMBER.search(leaf.value)]
        apart = [unlike_the_question(rank, result) for rank in (telling, texts, technical)]
        return [*(answers for answers, _ in apart), *(echoes for _, echoes in apart)]

    @property
    def factor(self) -> float:
        return 1 + 0.02 * math.pow(4950, self.severity)

    def altered(self, leaf: Leaf, result: ResultTree) -> Any:
        if isinstance(leaf.value, str):
            return _NUMBER.sub(lambda match: str(self._off(_parsed(match[0]))), leaf.value, count=1)
        return self._off(leaf.value)

    def _off(self, number: float) -> float:
        new = number * self.factor if number else self.factor - 1
        if isinstance(number, int):
            # Integer arithmetic, since a float cannot hold every long integer.
            error = max(1, abs(number) * round((self.factor - 1) * 100) // 100)
            return number - error if number < 0 else number + error
        return round(new, _decimals(number)) if round(new, _decimals(number)) != number else new


def _parsed(text: str) -> float:
    return float(text) if "." in text else int(text)


def _decimals(number: float) -> int:
    text = repr(number)
    return min(len(text.partition(".")[2]), 6) if "." in text and "e" not in text else 6


_DIMENSIONS: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {
    # factor and offset of the likely mix-up, then of the gross one
    "temperature": ((1.8, 32.0), (1.0, 273.15)),  # celsius as fahrenheit, as kelvin
    "speed": ((2.23694, 0.0), (3.6, 0.0)),  # metres a second as miles, as kilometres an hour
    "pressure": ((0.750062, 0.0), (100.0, 0.0)),  # hectopascal as millimetres of mercury, as pascal
    "length": ((0.621371, 0.0), (1000.0, 0.0)),  # kilometres as miles, as metres
    "mass": ((2.20462, 0.0), (1000.0, 0.0)),  # kilograms as pounds, as grams
    "money": ((1.1, 0.0), (100.0, 0.0)),  # one currency as another, as its cents
}
_DIMENSION_OF = {
    "temperature": "temp temperature feels_like temp_min temp_max celsius fahrenheit kelvin c f k °c °f",
    "speed": "speed gust wind_speed mph kmh km/h m/s",
    "pressure": "pressure hpa mbar inhg",
    "length": "distance length height altitude depth km mi miles kilometres kilometers m metres meters ft",
    "mass": "weight mass kg kilograms lb lbs pounds",
    "money": "price cost amount budget eur usd euros euro dollars dollar",
}
_BY_WORD = {word: name for name, words in _DIMENSION_OF.items() for word in words.split()}
_WITH_UNIT = re.compile(r"(?<![\w:.,/-])(\d+(?:\.\d+)?)\s?(°?[A-Za-z/]+)(?![\w])")


class UnitError(MeaningFault):
    """Convert a figure to another unit and keep the unit's name.

    Below severity 0.5 a likely mix-up (Celsius as Fahrenheit, km as miles), above that a gross one (kelvin,
    metres, cents). The quantity follows from the field's name, or from the unit after a number in a text.
    """

    name = "unit_error"

    def candidates(self, result: ResultTree) -> Ranks:
        leaves = list(leaves_of(result.document))
        numbers = [leaf for leaf in leaves if is_number(leaf.value) and _dimension(leaf.key)]
        texts = [leaf for leaf in leaves if isinstance(leaf.value, str) and _measured(leaf.value)]
        return [numbers, texts]

    def altered(self, leaf: Leaf, result: ResultTree) -> Any:
        if not isinstance(leaf.value, str):
            return self._mixed_up(leaf.value, _dimension(leaf.key))
        measure = _measured(leaf.value)
        if measure is None:
            return None
        new = self._mixed_up(_parsed(measure[1]), _dimension(measure[2]))
        return leaf.value[: measure.start(1)] + str(new) + leaf.value[measure.end(1) :]

    def _mixed_up(self, number: float, dimension: str) -> float:
        factor, offset = _DIMENSIONS[dimension][self.severity >= 0.5]
        try:
            new = number * factor + offset
        except OverflowError:  # an integer that no float can hold
            return number
        if not math.isfinite(new):
            return number
        return round(new) if isinstance(number, int) else round(new, 2)


def _dimension(word: str) -> str:
    """The quantity that a field's name or a unit measures; empty if unknown."""
    parts = (word.lower(), word.lower().rpartition("_")[2], word.lower().partition("_")[0])
    return next((_BY_WORD[part] for part in parts if part in _BY_WORD), "")


def _measured(text: str) -> re.Match[str] | None:
    """The first number in the text that is followed by a known unit."""
    return next((match for match in _WITH_UNIT.finditer(text) if _dimension(match[2])), None)


class Outdated(MeaningFault):
    """Move the dates in the result back, as in stale data.

    By a day at severity 0, two months at 0.5, ten years at 1 (3650 ** severity days). A year without a date
    moves by at least one year. A text without a date gets one: "(as of 2016)".
    """

    name = "outdated"

    @property
    def days(self) -> int:
        return round(math.pow(3650, self.severity))

    @property
    def years(self) -> int:
        return max(1, round(self.days / 365))

    def candidates(self, result: ResultTree) -> Ranks:
        leaves = list(leaves_of(result.document))
        texts = [leaf for leaf in leaves if isinstance(leaf.value, str)]
        dated, undated = divided(texts, lambda leaf: _DATE.search(leaf.value))
        years = [leaf for leaf in leaves if leaf.key == "year" and is_number(leaf.value)]
        in_texts, rest = divided(undated, lambda leaf: _YEAR.search(leaf.value))
        answers, echoes = unlike_the_question([*dated, *years, *in_texts], result)
        prose = [leaf for leaf in rest if " " in leaf.value]
        return [answers, prose, echoes]

    def altered(self, leaf: Leaf, result: ResultTree) -> Any:
        if not isinstance(leaf.value, str):
            return leaf.value - self.years
        if _DATE.search(leaf.value):
            return _DATE.sub(self._earlier, leaf.value)
        if _YEAR.search(leaf.value):
            return _YEAR.sub(lambda match: str(int(match[1]) - self.years), leaf.value)
        return f"{leaf.value} (as of {2025 - self.years})"

    def _earlier(self, match: re.Match[str]) -> str:
        try:
            return (date(int(match[1]), int(match[2]), int(match[3])) - timedelta(days=self.days)).isoformat()
        except (ValueError, OverflowError):  # not a calendar date
            return match[0]
