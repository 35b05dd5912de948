"""Faults of a result's figures and dates."""

from __future__ import annotations

import math
import re
from datetime import date, timedelta
from typing import Any

from windtunnel.faults.catalogue.meaning.result import (
    Leaf,
    MeaningFault,
    Ranks,
    Strike,
    leaves_of,
    split,
    unlike_the_question,
)

_NUMBER = re.compile(r"(?<![\w:.,/-])\d+(?:\.\d+)?(?![\w:/-]|[.,]\d)")
_DATE = re.compile(r"(?<!\d)(\d{4})-(\d{2})-(\d{2})(?!\d)")
_YEAR = re.compile(r"(?<![\d.,/-])(1[89]\d\d|20\d\d)(?![\d.,/-]\d|\d)")


def is_number(value: Any) -> bool:
    finite = not isinstance(value, float) or math.isfinite(value)
    return isinstance(value, (int, float)) and not isinstance(value, bool) and finite


def figures(strike: Strike) -> Ranks:
    """Numbers that say something: figures, texts that hold one, counters, what was asked."""
    leaves = [leaf for leaf in leaves_of(strike.document) if leaf.value is not None]
    numbers = [leaf for leaf in leaves if is_number(leaf.value)]
    telling, technical = split(numbers, lambda leaf: leaf.telling)
    texts = [leaf for leaf in leaves if isinstance(leaf.value, str) and _NUMBER.search(leaf.value)]
    apart = [unlike_the_question(rank, strike) for rank in (telling, texts, technical)]
    return [*(answers for answers, _ in apart), *(echoes for _, echoes in apart)]


class WrongValue(MeaningFault):
    """A figure in the result is wrong.

    It is off by a factor: 1.02 at severity 0, 2.4 at 0.5, 100 at 1 (1 + 0.02 * 4950 ** severity). A zero
    becomes that factor less one. A whole number stays whole. If the result has no number of its own, one
    in a text is changed.
    """

    name = "wrong_value"

    def candidates(self, strike: Strike) -> Ranks:
        return figures(strike)

    @property
    def factor(self) -> float:
        return 1 + 0.02 * math.pow(4950, self.severity)

    def altered(self, leaf: Leaf, strike: Strike) -> Any:
        if isinstance(leaf.value, str):
            return _NUMBER.sub(lambda found: str(self._off(_parsed(found[0]))), leaf.value, count=1)
        return self._off(leaf.value)

    def _off(self, number: float) -> float:
        new = number * self.factor if number else self.factor - 1
        if isinstance(number, int):
            # in whole numbers: a float has no room for a long one
            return number + max(1, abs(number) * round((self.factor - 1) * 100) // 100) * (
                -1 if number < 0 else 1
            )
        return round(new, _decimals(number)) if round(new, _decimals(number)) != number else new


def _parsed(text: str) -> float:
    return float(text) if "." in text else int(text)


def _decimals(number: float) -> int:
    text = repr(number)
    return min(len(text.partition(".")[2]), 6) if "." in text and "e" not in text else 6


_DIMENSIONS: dict[str, tuple[tuple[float, float], tuple[float, float]]] = {
    # factor and offset: the likelier mix-up, and the grosser
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
    """A figure is given in another unit than the result says.

    Below severity 0.5 the likelier mix-up (celsius read as fahrenheit, km as miles), from there on the
    grosser one (kelvin, metres, cents). The unit's name stays as it was. Known by the field's name or by
    the unit behind a number in a text.
    """

    name = "unit_error"

    def candidates(self, strike: Strike) -> Ranks:
        leaves = list(leaves_of(strike.document))
        numbers = [one for one in leaves if is_number(one.value) and _dimension(one.key)]
        texts = [one for one in leaves if isinstance(one.value, str) and _measured(one.value)]
        return [numbers, texts]

    def altered(self, leaf: Leaf, strike: Strike) -> Any:
        if not isinstance(leaf.value, str):
            return self._mixed_up(leaf.value, _dimension(leaf.key))
        found = _measured(leaf.value)
        if found is None:
            return None
        new = self._mixed_up(_parsed(found[1]), _dimension(found[2]))
        return leaf.value[: found.start(1)] + str(new) + leaf.value[found.end(1) :]

    def _mixed_up(self, number: float, dimension: str) -> float:
        factor, offset = _DIMENSIONS[dimension][self.severity >= 0.5]
        try:
            new = number * factor + offset
        except OverflowError:  # a whole number that no float can hold
            return number
        if not math.isfinite(new):
            return number
        return round(new) if isinstance(number, int) else round(new, 2)


def _dimension(word: str) -> str:
    word = word.lower()
    return (
        _BY_WORD.get(word)
        or _BY_WORD.get(word.rpartition("_")[2])
        or _BY_WORD.get(word.partition("_")[0], "")
    )


def _measured(text: str) -> re.Match[str] | None:
    return next((found for found in _WITH_UNIT.finditer(text) if _dimension(found[2])), None)


class Outdated(MeaningFault):
    """A date in the result lies too far back, as in data that nobody renewed.

    By a day at severity 0, two months at 0.5, ten years at 1 (3650 ** severity days). Years by themselves
    go back by at least one. A text without any date gets one: "(as of 2016)".
    """

    name = "outdated"

    @property
    def days(self) -> int:
        return round(math.pow(3650, self.severity))

    @property
    def years(self) -> int:
        return max(1, round(self.days / 365))

    def candidates(self, strike: Strike) -> Ranks:
        leaves = list(leaves_of(strike.document))
        texts = [one for one in leaves if isinstance(one.value, str)]
        dated, undated = split(texts, lambda one: _DATE.search(one.value))
        years = [one for one in leaves if one.key == "year" and is_number(one.value)]
        in_texts, rest = split(undated, lambda one: _YEAR.search(one.value))
        answers, echoes = unlike_the_question([*dated, *years, *in_texts], strike)
        prose = [one for one in rest if " " in one.value]
        return [answers, prose, echoes]

    def altered(self, leaf: Leaf, strike: Strike) -> Any:
        if not isinstance(leaf.value, str):
            return leaf.value - self.years
        if _DATE.search(leaf.value):
            return _DATE.sub(self._earlier, leaf.value)
        if _YEAR.search(leaf.value):
            return _YEAR.sub(lambda found: str(int(found[1]) - self.years), leaf.value)
        return f"{leaf.value} (as of {2025 - self.years})"

    def _earlier(self, found: re.Match[str]) -> str:
        try:
            return (date(int(found[1]), int(found[2]), int(found[3])) - timedelta(days=self.days)).isoformat()
        except (ValueError, OverflowError):  # no day of any calendar
            return found[0]
