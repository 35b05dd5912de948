"""Units by the words that people write for them, and the conversion between them. Pure.

A table has the words that stand for a unit in running text, where ``in`` is no inch; CLDR (babel) adds the
words of other languages, and pint knows all other names, one at a time, for what is given as a unit by
itself. pint converts. Both libraries are loaded when a text needs them first: they take half a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from wirefault.judging.reading.languages import LazyPattern

# dimension: unit=words that stand for it; by a dimension's first unit pint's other units of it are known
_TABLE = """
temperature: degC=c|°c|º c|ºc|˚c|° c|celsius|celcius|degree celsius|degrees celsius|degree c|degrees c|deg
c|deg. c|deg celsius|degs c|°celsius|° celsius|centigrade|degrees centigrade|celsius degrees|celsius
degree|grad celsius|grad c|degrés c|degrés celsius|grados c|gradi c|graus c|degre
celsius|degree_celsius|degrees_celsius|c°|摄氏度|℃|stopni c; degF=f|°f|ºf|˚f|° f|fahrenheit|farenheit|degree
fahrenheit|degrees fahrenheit|degrees f|degree f|deg f|deg. f|deg fahrenheit|°fahrenheit|°
fahrenheit|fahrenheit degrees|grad fahrenheit|degree_fahrenheit|华氏度|℉; kelvin=k|kelvins|degrees
kelvin|degree kelvin|°k|° k|kelvin degrees;
degree=°|º|˚|degrees|deg|deg.|degs|grad|grade|graden|grados|gradi|graus|degré|degrés|stopni|градусов|градуса|градус|度|도

length: meter=m|metre|metres|meters|mtr; millimeter=mm|millimetre|millimetres|millimeters;
centimeter=cm|centimetre|centimetres|centimeters; kilometer=km|kms|kilometre|kilometres|kilometers;
foot=ft|feet|ft.; inch=inches; yard=yd|yards; mile=mi|miles

duration: second=s|sec|secs|seconds; millisecond=ms|msec|milliseconds; minute=min|mins|minutes|min.;
hour=h|hr|hrs|hours; day=days; week=weeks; month=months; year=years|yrs|jahre|ans|años

speed: meter/second=m/s|mps|meter/sec|metres/sec|meters/sec|metres per second|meters per second|metre per
second|meter per second|m/sec|m per second|m s^-1|ms^-1; kilometer/hour=km/h|kph|kmh|kmph|km/hr|km per
hour|km an hour|kilometres per hour|kilometers per hour|kilometre per hour|kilometer per hour;
mile/hour=mph|mi/h|miles per hour|mile per hour|miles an hour; knot=kn|knots|kt|kts

pressure: hectopascal=hpa|hectopascals; pascal=pa|pascals; millibar=mbar|millibars|mb; bar=bars; mmHg=mmhg;
psi=psi

mass: kilogram=kg|kgs|kilo|kilos|kilograms|kilogrammes; gram=g|grams|grammes; pound=lb|lbs|pounds;
ounce=oz|ounces; metric_ton=t|tonne|tonnes|metric tons

area: meter**2=m^2|m²|sqm|square metres|square meters|square metre|square meter;
kilometer**2=km^2|km²|square kilometres|square kilometers|square kilometre|square kilometer; foot**2=sq
ft|square feet|square foot; hectare=ha|hectares; acre=acres

volume: liter=l|litre|litres|liters; milliliter=ml|millilitres|milliliters; gallon=gal|gallons;
meter**3=m^3|m³|cubic metres|cubic meters

energy: joule=j|joules; kilowatt_hour=kwh; kilocalorie=kcal

power: watt=w|watts; kilowatt=kw

frequency: hertz=hz; kilohertz=khz; megahertz=mhz; gigahertz=ghz

data: byte=bytes|b; kilobyte=kb; megabyte=mb; gigabyte=gb; terabyte=tb

share: percent=%|per cent|percents|percentage|percentage points|pct|pct.|prozent|v.h.|٪|процентов;
dimensionless=fraction|decimal fraction|as a fraction|ratio

currency: EUR=€|euro|euros|eur.|евро|欧元|ユーロ|유로|يورو; USD=$|us$|dollar|dollars|us dollars|u.s.
dollars|bucks|dólares|dólar|dollari|долларов|美元|ドル|달러|دولار; GBP=£|pound sterling|pounds
sterling|pounds|quid; JPY=¥|yen|円; CHF=francs|franken|swiss francs|sfr; INR=₹|rupees|rs; CNY=yuan|rmb|元;
KRW=₩; RUB=₽|roubles|rubles; PLN=zł|zloty; SEK=kronor; NOK=kroner; DKK=; CZK=kč; CAD=ca$|c$; AUD=a$|au$;
BRL=r$|reais; MXN=pesos
"""


def _units_of(described: str) -> dict[str, str]:
    pairs = (unit.partition("=") for unit in " ".join(described.split()).split("; "))
    return {name: words for name, _, words in pairs}


_DIMENSIONS = (block.partition(": ") for block in _TABLE.strip().split("\n\n"))
TABLE: Mapping[str, Mapping[str, str]] = {name: _units_of(units) for name, _, units in _DIMENSIONS}

# the hundredth parts of currencies
CENTS: Mapping[str, str] = {
    "EUR": "euro cents|euro cent|eurocents|eurocent|cents|cent|ct",
    "USD": "us cents|cents|cent|¢",
    "GBP": "pence|penny",
}

# what may stand behind a word for degrees
DEGREES_OF: Mapping[str, str] = {
    **dict.fromkeys(("c", "celsius", "centigrade", "celsjusza", "celsia", "цельсия", "цельсію"), "degC"),
    **dict.fromkeys(("f", "fahrenheit", "fahrenheita", "фаренгейта"), "degF"),
    **dict.fromkeys(("k", "kelvin"), "kelvin"),
}

_LOCALES = "de fr es it pt nl pl sv da nb fi cs tr ru uk zh ja ko ar el ro hu he hi id vi th"
LOCALES = tuple(_LOCALES.split())

# units by CLDR's names: what follows the first hyphen is a word of the table
_CLDR_UNITS = """
temperature-celsius temperature-fahrenheit temperature-kelvin length-meter length-centimeter
length-kilometer length-foot length-mile concentr-percent duration-second duration-minute duration-hour
duration-day duration-week duration-month duration-year speed-kilometer-per-hour speed-meter-per-second
mass-kilogram pressure-hectopascal
"""
CLDR_UNITS = tuple(_CLDR_UNITS.split())

# words of other languages that mean something else in English, or are too short to tell
_NO_UNITS = (
    "time pie stop fit den ore tag pi mil dia tim ora an j t d on mes anno ano år ar rok let dag per sat"
)
NO_UNITS = frozenset(_NO_UNITS.split())


if TYPE_CHECKING:
    from pint import UnitRegistry


@dataclass(frozen=True)
class Unit:
    """``name`` as pint has it, or a currency's code. Units of one dimension convert into one another.

    ``hundredth``: the hundredth part of the currency.
    """

    name: str
    dimension: str
    hundredth: bool = False

    @property
    def converts(self) -> bool:
        """Bare degrees are taken as they are."""
        return self.name != "degree"


def _table() -> dict[str, tuple[Unit, ...]]:
    words: dict[str, tuple[Unit, ...]] = {}
    for dimension, units in TABLE.items():
        for name, spellings in units.items():
            unit = Unit(name, f"currency {name}" if dimension == "currency" else dimension)
            for word in filter(None, (name.casefold(), *spellings.split("|"))):
                words[word] = (*words.get(word, ()), unit)
    for name, spellings in CENTS.items():
        for word in spellings.split("|"):
            words[word] = (*words.get(word, ()), Unit(name, f"currency {name}", hundredth=True))
    for degrees in TABLE["temperature"]["degree"].split("|"):
        for scale, name in DEGREES_OF.items():
            words.setdefault(f"{degrees} {scale}", (Unit(name, "temperature"),))
    return words


WORDS = _table()
_REFERENCES = {dimension: next(iter(units)) for dimension, units in TABLE.items() if dimension != "currency"}
_TO_KELVIN = {"kelvin": (1.0, 0.0), "degC": (1.0, 273.15), "degF": (5 / 9, 459.67 * 5 / 9)}
_NOT_WITHIN = r"(?![^\W\d_]|\^|/\w|\s?[²³])"


def _alternatives(words: Iterable[str]) -> LazyPattern:
    longest_first = sorted(words, key=len, reverse=True)
    return LazyPattern(f"(?:{'|'.join(map(re.escape, longest_first))}){_NOT_WITHIN}")


_KNOWN = _alternatives(WORDS)
_GAP = LazyPattern(r"[ \t]?[(\[]?")
_LETTERS = LazyPattern(r"[^\W\d_]{2,}")
_QUALIFIED = LazyPattern(r"\b(?:per|pro|par|por|square|cubic|squared|cubed)\b|[/^*+=]")
_PER = LazyPattern(r"\s(?:per|pro|par|por|an?)\s(?!cent)[^\W\d_]+")
_TOKEN = LazyPattern(r"[A-Za-zµΩ]{1,40}")


def unit_after(text: str, at: int) -> tuple[tuple[Unit, ...], int]:
    """The units that the words at this place may stand for, and where they end; none if there are none.

    ``text`` is case folded. Words that begin right here may belong to the number (``8.4c``).
    """
    gap = _GAP.match(text, at)
    start = gap.end() if gap else at
    known = _KNOWN.match(text, start)
    if known:
        compound = _PER.match(text, known.end())
        if compound:
            return (Unit(text[start : compound.end()], "unknown"),), compound.end()
        return WORDS[known[0]], known.end()
    if _LETTERS.match(text, start):
        words, pattern = _words_of_other_languages()
        foreign = pattern.match(text, start)
        if foreign:
            return words[foreign[0]], foreign.end()
    return (), at


def units_of(given: str) -> tuple[Unit, ...]:
    """The units that a text which is given as a unit may stand for; none if it is not known.

    ``metres tall`` is one of length. Raises nothing.
    """
    text = " ".join(given.casefold().replace("° ", "°").split()).strip(" .,;:()[]{}\"'*_`")
    if text in WORDS or not text:
        return WORDS.get(text, ())
    foreign, _ = _words_of_other_languages()
    if text in foreign:
        return foreign[text]
    if not _QUALIFIED.search(text):
        for word in re.finditer(r"[^\s()\[\],;]+", text[:200]):
            units, end = unit_after(text, word.start())
            if units and end > word.start():
                return units
    token = _TOKEN.fullmatch(given.strip())
    unit = _by_pint(token[0]) if token else None
    return (unit,) if unit else ()


@lru_cache(maxsize=1)
def _registry() -> UnitRegistry[float]:
    from pint import UnitRegistry

    return UnitRegistry()


@lru_cache(maxsize=1024)
def _by_pint(token: str) -> Unit | None:
    """The unit that pint knows by this one word, never by an expression."""
    registry = _registry()
    for spelt in (token, token.lower()):
        try:
            name = registry.get_name(spelt)
            dimension = registry.get_dimensionality(name)
        except (AttributeError, KeyError, ValueError, AssertionError):  # how pint says that it knows none
            continue
        if not name:
            continue
        for known, reference in _REFERENCES.items():
            if registry.get_dimensionality(reference) == dimension and known not in ("share", "angle"):
                return Unit(name, known)
        return Unit(name, str(dimension))
    return None


@lru_cache(maxsize=1)
def _words_of_other_languages() -> tuple[dict[str, tuple[Unit, ...]], LazyPattern]:
    """CLDR's words for the commonest units, without those that are English words of another meaning."""
    from babel.units import format_unit, get_unit_name

    words: dict[str, tuple[Unit, ...]] = {}
    for locale in LOCALES:
        for cldr in CLDR_UNITS:
            word = cldr.partition("-")[2].replace("-per-", "/")
            forms = [format_unit(count, cldr, "long", locale=locale) for count in (1, 3, 7)]
            spelt = [form.replace(str(count), "") for form, count in zip(forms, (1, 3, 7), strict=True)]
            for name in (*spelt, get_unit_name(cldr, "long", locale) or ""):
                folded = " ".join(name.casefold().split())
                if folded and folded not in NO_UNITS and folded not in WORDS and "-" not in folded:
                    words.setdefault(folded, WORDS[word])
    return words, _alternatives(words)


def convert(value: float, source: str | None, target: str | None) -> float:
    """The value in the target unit; unchanged where either is absent or the two are not convertible."""
    sources, targets = units_of(source or ""), units_of(target or "")
    pairs = ((given, asked) for given in sources for asked in targets if given.dimension == asked.dimension)
    pair = next(pairs, None)
    return converted(value, *pair) if pair else value


def converted(value: float, source: Unit, target: Unit) -> float:
    """The value in the target unit, which must be of the same dimension."""
    if source == target or not source.converts or not target.converts:
        return value
    factor, offset = _affine(source, target)
    return value * factor + offset


def scale_between(source: Unit, target: Unit) -> float:
    """How many of the target unit one step of the source unit is."""
    if source == target or not source.converts or not target.converts:
        return 1.0
    return abs(_affine(source, target)[0])


@lru_cache(maxsize=256)
def _affine(source: Unit, target: Unit) -> tuple[float, float]:
    """Factor and offset. Temperatures, the commonest, do without pint, which takes half a second to load."""
    if source.name == target.name:
        return 0.01**source.hundredth / 0.01**target.hundredth, 0.0
    if source.name in _TO_KELVIN and target.name in _TO_KELVIN:
        (factor, offset), (divisor, subtracted) = _TO_KELVIN[source.name], _TO_KELVIN[target.name]
        return factor / divisor, (offset - subtracted) / divisor
    given = (_registry().Quantity(x, source.name) for x in (0.0, 100.0))
    zero, hundred = (float(quantity.to(target.name).magnitude) for quantity in given)
    return (hundred - zero) / 100.0, zero


def siblings(unit: str | None) -> list[str]:
    """That unit and those of the same dimension; none if it is unknown."""
    known = units_of(unit or "")
    if not known:
        return []
    own = known[0]
    others = (name for name in TABLE.get(own.dimension, ()) if name not in ("degree", own.name))
    return [own.name, *others]
