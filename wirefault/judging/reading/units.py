"""Read units in words and signs, and convert between them. Pure.

Running text is read with the words of the language files, where ``in`` is not an inch; CLDR (babel) adds
more languages. A text that is only a unit may also have any name that pint knows. pint converts. Both
libraries are loaded at the first text that needs them: they take half a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from wirefault.judging.reading.languages import LazyPattern, english_words, languages, merged

if TYPE_CHECKING:
    from pint import UnitRegistry

# dimension: pint's names and the signs of its units; the words are in the language files and CLDR
_SIGNS: Mapping[str, Mapping[str, str]] = {
    "temperature": {
        "degC": "c|°c|º c|ºc|˚c|° c|°celsius|° celsius|c°|℃",
        "degF": "f|°f|ºf|˚f|° f|°fahrenheit|° fahrenheit|℉",
        "kelvin": "k|°k|° k",
        "degree": "°|º|˚",
    },
    "length": {
        **{"meter": "m", "millimeter": "mm", "centimeter": "cm", "kilometer": "km"},
        **{"foot": "ft", "inch": "", "yard": "yd", "mile": "mi"},
    },
    "duration": {
        **{"second": "s", "millisecond": "ms", "minute": "min", "hour": "h"},
        **{"day": "", "week": "", "month": "", "year": ""},
    },
    "speed": {
        **{"meter/second": "m/s|mps|m/sec|m s^-1|ms^-1", "kilometer/hour": "km/h|kmh"},
        **{"mile/hour": "mi/h", "knot": "kn|kt"},
    },
    "pressure": {
        **{"hectopascal": "hpa", "pascal": "pa", "millibar": "mbar|mb", "bar": ""},
        **{"mmHg": "mmhg", "psi": "psi"},
    },
    "mass": {"kilogram": "kg", "gram": "g", "pound": "lb", "ounce": "oz", "metric_ton": "t"},
    "area": {
        **{"meter**2": "m^2|m²|sqm", "kilometer**2": "km^2|km²", "foot**2": ""},
        **{"hectare": "ha", "acre": ""},
    },
    "volume": {"liter": "l", "milliliter": "ml", "gallon": "gal", "meter**3": "m^3|m³"},
    "energy": {"joule": "j", "kilowatt_hour": "kwh", "kilocalorie": "kcal"},
    "power": {"watt": "w", "kilowatt": "kw"},
    "frequency": {"hertz": "hz", "kilohertz": "khz", "megahertz": "mhz", "gigahertz": "ghz"},
    "data": {"byte": "b", "kilobyte": "kb", "megabyte": "mb", "gigabyte": "gb", "terabyte": "tb"},
    "share": {"percent": "%|٪", "dimensionless": ""},
    "currency": {
        **{"EUR": "€", "USD": "$|us$", "GBP": "£", "JPY": "¥", "CHF": "sfr", "INR": "₹|rs", "CNY": "rmb"},
        **{"KRW": "₩", "RUB": "₽", "PLN": "zł", "SEK": "", "NOK": "", "DKK": "", "CZK": "kč"},
        **{"CAD": "ca$|c$", "AUD": "a$|au$", "BRL": "r$|reais", "MXN": ""},
    },
}
_HUNDREDTHS = {"USD": "¢"}

# the locales whose units, currencies, months and compact numbers are read
_LOCALE_LIST = "de fr es it pt nl pl sv da nb fi cs tr ru uk zh ja ko ar el ro hu he hi id vi th"
LOCALES = tuple(_LOCALE_LIST.split())

# CLDR's names of units, and ours
_CLDR_UNITS = {
    **{"temperature-celsius": "degC", "temperature-fahrenheit": "degF", "temperature-kelvin": "kelvin"},
    **{"angle-degree": "degree", "length-meter": "meter", "length-centimeter": "centimeter"},
    **{"length-kilometer": "kilometer", "length-foot": "foot", "length-mile": "mile"},
    **{"concentr-percent": "percent", "duration-second": "second", "duration-minute": "minute"},
    **{"duration-hour": "hour", "duration-day": "day", "duration-week": "week", "duration-month": "month"},
    **{"duration-year": "year", "speed-kilometer-per-hour": "kilometer/hour"},
    **{"speed-meter-per-second": "meter/second", "mass-kilogram": "kilogram"},
    **{"pressure-hectopascal": "hectopascal"},
}

# words of other languages that have another meaning in English, or are too short to be certain
_NOT_UNIT_LIST = (
    "time pie stop fit den ore tag pi mil dia tim ora an j t d on mes anno ano år ar rok let dag per sat"
)
_NOT_UNITS = frozenset(_NOT_UNIT_LIST.split())


@dataclass(frozen=True)
class Unit:
    """A unit, or one possible meaning of a word for it."""

    name: str  # pint's name, or a currency's code
    dimension: str  # units of one dimension convert into one another
    hundredth: bool = False  # the hundredth part of the currency

    @property
    def converts(self) -> bool:
        """False for bare degrees, whose values are used unchanged."""
        return self.name != "degree"


@cache
def unit_words() -> Mapping[str, tuple[Unit, ...]]:
    """Return the units of each word and sign; several if the word is ambiguous ("pounds")."""
    spelt = [language.get("units", {}) for language in languages()]
    words: dict[str, tuple[Unit, ...]] = {}
    for dimension, units in _SIGNS.items():
        for name, signs in units.items():
            unit = Unit(name, f"currency {name}" if dimension == "currency" else dimension)
            spellings = [name.casefold(), *signs.split("|"), *_split(each.get(name) for each in spelt)]
            for word in dict.fromkeys(filter(None, spellings)):
                words[word] = (*words.get(word, ()), unit)
    for language in (*languages(), {"hundredths": _HUNDREDTHS}):
        for name, spellings in language.get("hundredths", {}).items():
            for word in spellings.split("|"):
                words[word] = (*words.get(word, ()), Unit(name, f"currency {name}", hundredth=True))
    scales = merged("degrees_of")
    for degrees in [word for word, units in words.items() if units[0].name == "degree"]:
        for name, spellings in scales.items():
            for scale in spellings.split("|"):
                words.setdefault(f"{degrees} {scale}", (Unit(name, "temperature"),))
    return words


def _split(spellings: Iterable[str | None]) -> Iterator[str]:
    for each in spellings:
        yield from (each or "").split("|")


_REFERENCES = {name: next(iter(units)) for name, units in _SIGNS.items() if name != "currency"}
_TO_KELVIN = {"kelvin": (1.0, 0.0), "degC": (1.0, 273.15), "degF": (5 / 9, 459.67 * 5 / 9)}
_NOT_WITHIN = r"(?![^\W\d_]|\^|/\w|\s?[²³])"


def _alternatives(words: Iterable[str]) -> LazyPattern:
    longest_first = sorted(words, key=len, reverse=True)
    return LazyPattern(f"(?:{'|'.join(map(re.escape, longest_first))}){_NOT_WITHIN}")


@cache
def _known() -> LazyPattern:
    return _alternatives(unit_words())


_GAP = LazyPattern(r"[ \t]?[(\[]?")
_LETTERS = LazyPattern(r"[^\W\d_]{2,}")
_QUALIFIED = LazyPattern(r"\b<qualified>\b|[/^*+=]")
_PER = LazyPattern(r"\s<per>\s(?!cent)[^\W\d_]+")
_PERIOD = LazyPattern(r"\s<per>\s<period>\b")
_TOKEN = LazyPattern(r"[A-Za-zµΩ]{1,40}")


def unit_after(text: str, at: int) -> tuple[tuple[Unit, ...], int]:
    """Return the possible units of the words at this place and their end; no units for other words.

    ``text`` is case-folded. The words may follow the number directly (``8.4c``).
    """
    gap = _GAP.match(text, at)
    start = gap.end() if gap else at
    known = _known().match(text, start)
    if known:
        compound = _PER.match(text, known.end())
        price = all(unit.dimension.startswith("currency") for unit in unit_words()[known[0]])
        if compound and not (price and _PERIOD.match(text, known.end())):  # roles.py reads the period
            return (Unit(text[start : compound.end()], "unknown"),), compound.end()
        return unit_words()[known[0]], known.end()
    word = _LETTERS.match(text, start)
    if word and word[0] not in english_words():
        words, pattern = _foreign_words()
        foreign = pattern.match(text, start)
        if foreign:
            return words[foreign[0]], foreign.end()
    return (), at


def units_of(name: str) -> tuple[Unit, ...]:
    """Return the possible units of a text that names one; none if it is unknown.

    ``metres tall`` is a unit of length.
    """
    text = " ".join(name.casefold().replace("° ", "°").split()).strip(" .,;:()[]{}\"'*_`")
    if text in unit_words() or not text:
        return unit_words().get(text, ())
    foreign, _ = _foreign_words()
    if text in foreign:
        return foreign[text]
    if not _QUALIFIED.search(text):
        for word in re.finditer(r"[^\s()\[\],;]+", text[:200]):
            units, end = unit_after(text, word.start())
            if units and end > word.start():
                return units
    token = _TOKEN.fullmatch(name.strip())
    unit = _by_pint(token[0]) if token else None
    return (unit,) if unit else ()


@lru_cache(maxsize=1)
def _registry() -> UnitRegistry[float]:
    from pint import UnitRegistry

    return UnitRegistry()


@lru_cache(maxsize=1024)
def _by_pint(token: str) -> Unit | None:
    """Return pint's unit of this one word; expressions are not evaluated."""
    registry = _registry()
    for spelt in (token, token.lower()):
        try:
            name = registry.get_name(spelt)
            dimension = registry.get_dimensionality(name)
        except (AttributeError, KeyError, ValueError, AssertionError):  # pint's errors for unknown names
            continue
        if not name:
            continue
        for known, reference in _REFERENCES.items():
            if registry.get_dimensionality(reference) == dimension and known not in ("share", "angle"):
                return Unit(name, known)
        return Unit(name, str(dimension))
    return None


@cache
def _foreign_words() -> tuple[dict[str, tuple[Unit, ...]], LazyPattern]:
    """Return CLDR's words for common units and currencies, without English words of another meaning."""
    from babel.numbers import get_currency_name
    from babel.units import format_unit, get_unit_name

    known = unit_words()
    words: dict[str, tuple[Unit, ...]] = {}

    def add(name: str, units: tuple[Unit, ...]) -> None:
        folded = " ".join(name.casefold().split())
        if folded and folded not in _NOT_UNITS and folded not in known and "-" not in folded:
            words.setdefault(folded, units)

    for locale in LOCALES:
        for cldr, unit in _CLDR_UNITS.items():
            forms = [format_unit(count, cldr, "long", locale=locale) for count in (1, 3, 7)]
            spelt = [form.replace(str(count), "") for form, count in zip(forms, (1, 3, 7), strict=True)]
            for name in (*spelt, get_unit_name(cldr, "long", locale) or ""):
                add(name, known[unit.casefold()])
        for code in _SIGNS["currency"]:
            for count in (None, 1, 3, 7):
                add(get_currency_name(code, count, locale), known[code.casefold()])
    return words, _alternatives(words)


def convert(value: float, source: str | None, target: str | None) -> float:
    """Convert a value; unchanged if a unit is missing or the two are not convertible."""
    sources, targets = units_of(source or ""), units_of(target or "")
    pairs = ((one, other) for one in sources for other in targets if one.dimension == other.dimension)
    pair = next(pairs, None)
    return converted(value, *pair) if pair else value


def converted(value: float, source: Unit, target: Unit) -> float:
    """Convert a value to a unit of the same dimension."""
    if source == target or not source.converts or not target.converts:
        return value
    factor, offset = _affine(source, target)
    return value * factor + offset


def scale_between(source: Unit, target: Unit) -> float:
    """Return the size of one step of the source unit in the target unit."""
    if source == target or not source.converts or not target.converts:
        return 1.0
    return abs(_affine(source, target)[0])


@lru_cache(maxsize=256)
def _affine(source: Unit, target: Unit) -> tuple[float, float]:
    """Return factor and offset; for temperatures, the most common case, without loading pint."""
    if source.name == target.name:
        return 0.01**source.hundredth / 0.01**target.hundredth, 0.0
    if source.name in _TO_KELVIN and target.name in _TO_KELVIN:
        (factor, offset), (divisor, subtracted) = _TO_KELVIN[source.name], _TO_KELVIN[target.name]
        return factor / divisor, (offset - subtracted) / divisor
    quantities = (_registry().Quantity(x, source.name) for x in (0.0, 100.0))
    zero, hundred = (float(quantity.to(target.name).magnitude) for quantity in quantities)
    return (hundred - zero) / 100.0, zero


def siblings(unit: str | None) -> list[str]:
    """Return the unit and the other units of its dimension; empty for an unknown unit."""
    known = units_of(unit or "")
    if not known:
        return []
    own = known[0]
    others = (name for name in _SIGNS.get(own.dimension, ()) if name not in ("degree", own.name))
    return [own.name, *others]
