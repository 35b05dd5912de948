"""Find the quantities in a text: numbers in digits or words, each with its unit. Pure.

Operands of calculations in the text (``12 * 9 =``, ``15% of 240``, ``± 0.5``) are recognised too.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice, pairwise, product

from wirefault.judging.reading.dates import days_in, times_in
from wirefault.judging.reading.languages import LazyPattern, english_words, is_foreign, languages
from wirefault.judging.reading.numbers import Numeral, numerals, written_numbers
from wirefault.judging.reading.units import LOCALES, Unit, converted, unit_after, unit_words, units_of

_MAX_NUMBERS = 400  # of one text that are read
_NO_VALUE = "null"  # in JSON; a German zero only with its unit
_MAX_UNWORDED = 40  # characters of one ASCII word, which has no language
_SHORT_SCALES = frozenset({"k", "m", "mm", "b"})
_OF = LazyPattern(r"[ ]<of>(?=[ ])|")
_NAMED_UNIT = LazyPattern(r"^[\"']?\s*,\s*[\"']?(?:\w+_)?units?[\"']?\s*[:=]\s*[\"']?")
_LABELLED = LazyPattern(
    r"(?:\((?P<bracket>[^()\n]{1,30})\)|\bin (?:degrees )?"
    r"(?P<word>celsius|fahrenheit|kelvin|metres|meters|feet|euros|dollars|percent))"
)
_FOREIGN_WORD = LazyPattern(r"[ ]?([^\W\d_]{3,})")
_MINUS = LazyPattern(r"(?<![\d%)] )\b<minus>\s$|(?:零下|氷点下|マイナス)$")
_BELOW_ZERO = LazyPattern(r"^\s?(?:(?:°\s?c?|<degrees>)\s)?<below_zero>")
_LABEL = LazyPattern(r"(?:\b<label>\.?\s|§\s?)$")
_NAMED_BY_NUMBER = LazyPattern(r"[#№]\s?$")
_YEAR_BEFORE = LazyPattern(r"(?:\b<year_before>\s|\()$")
_FOOTNOTE = LazyPattern(r"^\d{1,2}\]")
_ORDINAL = LazyPattern(r"<ordinal_suffix>\b")
_COMPOUND_GAP = LazyPattern(r"^(?:,?\s<and>\s|,\s|\s)?$")
_HOURS_AND_MINUTES = LazyPattern(
    r"(?i)(?<![\w:.,])(?:(\d{1,3})\s?(?:h|<hours>)\s?(\d{2})(?:\s?m(?:in)?)?(?![\w:]|\.\d)",
    r"|(\d{1,3}):(\d{2})(?=\s?(?:h|<hours>)\b)(?:\s?(?:h|<hours>))\b)",
)
_FEET_AND_INCHES = re.compile(
    r"(?<![\w.,])(\d{1,6})\s?(?:ft\.?|feet|foot|')\s?(\d{1,2})\s?(?:in\b\.?|inch(?:es)?\b|\")"
)
_LETTERS_OR_SIGN = re.compile(r"[^\W\d_]+|[^\w\s.,-]")
_LIST_GAP = LazyPattern(r"^\s*(?:,|;|,?\s*(?:<and>|<or>|<short_or>|<to>)|-|–|/|±|\+/-)\s*$")
_OF_THEM = LazyPattern(r"^\s<of_them>\b")
_COMPOUND = frozenset({"length", "duration", "mass"})


@dataclass(frozen=True)
class Reading:
    """One possible meaning of a quantity."""

    value: float
    step: float  # one unit of the last written digit
    unit: Unit | None


@dataclass(frozen=True)
class Quantity:
    """A quantity in a text."""

    start: int
    end: int
    readings: tuple[Reading, ...]  # the likeliest first
    weak: bool = False  # may count or name something else: a year, a page, "one"
    is_name: bool = False  # names something ("#42")

    @property
    def year_like(self) -> bool:
        first = self.readings[0]
        return first.unit is None and first.step == 1 and 1000 <= first.value < 3000


def lowered(text: str) -> str:
    """Return the text in lower case, with every character at its old index."""
    low = text.lower()
    if len(low) == len(text):
        return low
    return "".join(c.lower() if len(c.lower()) == 1 else c for c in text)


@cache
def _scales() -> tuple[dict[str, float], LazyPattern]:
    """Return the words for hundreds, thousands, millions and so on, and a pattern that finds them."""
    words = {
        word: float(factor)
        for language in languages()
        for factor, spellings in language.get("scales", {}).items()
        for word in spellings.split()
    }
    return words, LazyPattern(rf"[ ]?({'|'.join(sorted(words, key=len, reverse=True))})\b\.?")


@cache
def _money_before() -> LazyPattern:
    money = [word for word, units in unit_words().items() if units[0].dimension.startswith("currency")]
    longest_first = sorted(money, key=len, reverse=True)
    return LazyPattern(rf"(?<![^\W\d_])({'|'.join(map(re.escape, longest_first))})[ ]?$")


@cache
def cldr_scales() -> tuple[dict[str, float], LazyPattern]:
    """Return CLDR's words for thousands, millions and so on, and a pattern that finds them."""
    from babel.numbers import format_compact_decimal

    words: dict[str, float] = {}
    for locale, power, count in product(LOCALES, (3, 6, 9, 12), (1, 2, 5)):
        if locale in ("zh", "ja", "ko"):  # they count by ten thousands
            continue
        printed = format_compact_decimal(count * 10**power, format_type="long", locale=locale)
        number, _, word = printed.replace("\u00a0", " ").partition(" ")
        if number == str(count) and len(word) >= 3:
            words.setdefault(word.casefold(), 10.0**power)
    longest_first = sorted(words, key=len, reverse=True)
    return words, LazyPattern(rf"[ ]?({'|'.join(map(re.escape, longest_first))})(?!\w)")


def quantities(text: str) -> list[Quantity]:
    """Find the quantities of a plain text (see ``text.plain``), in order, without dates and times of day."""
    low = lowered(text)
    taken = sorted((moment.start, moment.end) for moment in (*days_in(low), *times_in(low)))
    numbers = [
        _with_unit(low, numeral, numeral.start, numeral.end) for numeral in _outside(numerals(text), taken)
    ]
    digits = [quantity for quantity in numbers if quantity is not None]
    spans = sorted([*taken, *((quantity.start, quantity.end) for quantity in digits)])
    in_words = [quantity for quantity in _in_words(low, spans) if quantity is not None]
    return _compounded(low, sorted([*digits, *in_words], key=lambda quantity: quantity.start))


def with_parts(text: str, dimensions: Collection[str]) -> str:
    """Write ``1h30`` and ``1:30 hours`` as hours and minutes, ``7 ft 10 in`` as feet and inches."""
    if "duration" in dimensions:
        text = _HOURS_AND_MINUTES.sub(r"\1\3 h \2\4 min", text)
    return _FEET_AND_INCHES.sub(r"\1 feet \2 inches", text) if "length" in dimensions else text


def is_unknown_language(text: str, known: Iterable[tuple[int, int]] = ()) -> bool:
    """Return whether a plain text has a sentence in a language that cannot be read.

    ``known``: places of quantities or phrases, which are ignored, like dates and times of day.
    """
    if text.isascii() and len(text) <= _MAX_UNWORDED and not text.strip(" .").count(" "):
        return False
    rest = _blanked(text, known)
    if not is_foreign(rest):
        return False
    low = lowered(rest)
    return is_foreign(_blanked(rest, ((each.start, each.end) for each in (*days_in(low), *times_in(low)))))


def _blanked(text: str, places: Iterable[tuple[int, int]]) -> str:
    for start, end in places:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def _outside(every: Iterator[Numeral], taken: list[tuple[int, int]]) -> Iterator[Numeral]:
    """Yield the numerals outside the spans; both are in order."""
    index = 0
    for numeral in every:
        while index < len(taken) and taken[index][1] <= numeral.start:
            index += 1
        if index == len(taken) or numeral.end <= taken[index][0]:
            yield numeral


def _in_words(low: str, spans: list[tuple[int, int]]) -> Iterator[Quantity | None]:
    for written in islice(written_numbers(low), _MAX_NUMBERS):
        if any(start < written.end and written.start < end for start, end in spans):
            continue
        numeral = Numeral(written.start, written.end, (written.value,), (_step_of(written.value),))
        quantity = _with_unit(low, numeral, written.start, written.end)
        if quantity is None:
            continue
        alone = not low[: written.start].strip(" \n\"'") and not low[quantity.end :].strip(" \n.!\"'")
        without_unit = all(reading.unit is None for reading in quantity.readings)
        if without_unit and low[written.start : written.end] == _NO_VALUE:
            continue
        if without_unit and written.single and not alone:
            if written.value <= 1:
                continue
            quantity = replace(quantity, weak=True)
        yield quantity


def _step_of(value: float) -> float:
    decimals = len(f"{value:g}".partition(".")[2])
    return 10.0**-decimals


def _with_unit(low: str, numeral: Numeral, start: int, end: int) -> Quantity | None:
    """Read the quantity that begins with this number; None if its digits are part of a word (``3d``)."""
    before, after = low[max(0, start - 60) : start], low[end : end + 80]
    if _FOOTNOTE.match(low[start : end + 1]) and before.endswith("["):
        return None
    pairs = list(zip(numeral.values, numeral.steps, strict=True))
    minus = _MINUS.search(before)
    if minus or _BELOW_ZERO.match(after):
        pairs = [(-abs(value), step) for value, step in pairs]
    readings, until, joined = _readings(low, pairs, before, end)
    attached = low[end : end + 1].isalpha() and low[end : end + 1].isascii()
    if attached and not joined:
        if not _ORDINAL.match(low, end):
            return None
        return Quantity(start, end, tuple(Reading(value, step, None) for value, step in pairs), weak=True)
    quantity = Quantity(start, until, tuple(readings))
    is_name = bool(_NAMED_BY_NUMBER.search(before))
    weak = (
        is_name or bool(_LABEL.search(before)) or (quantity.year_like and bool(_YEAR_BEFORE.search(before)))
    )
    return replace(quantity, weak=weak, is_name=is_name)


def _readings(
    low: str, pairs: list[tuple[float, float]], before: str, end: int
) -> tuple[list[Reading], int, bool]:
    """Return the number's readings, their end, and whether a unit or scale follows the number."""
    money = _money_before().search(before)
    prefix = unit_words()[money[1]] if money else ()
    units, until = unit_after(low, end)
    scaled: list[Reading] = []
    scales, scale_pattern = _scales()
    scale = scale_pattern.match(low, end) or (None if units else _foreign_scale(low, end))
    if scale and (not units or scale[1] in _SHORT_SCALES):
        of_it = _OF.match(low, scale.end())
        behind, scaled_until = unit_after(low, of_it.end() if of_it else scale.end())
        is_money = bool(money) or any(unit.dimension.startswith("currency") for unit in behind)
        if is_money or scale[1] not in _SHORT_SCALES or scale[1] == "k":
            factor, of = scales.get(scale[1]) or cldr_scales()[0][scale[1]], behind or prefix
            scaled = [each for v, step in pairs for each in _each_unit(v * factor, step * factor, of)]
            until = max(until, scaled_until, scale.end())
    word_read = bool(units or scaled)
    if scaled and (is_money or not units):
        return scaled, until, word_read
    if not units:
        units, until = _named_beside(low, before, end, prefix)
    plain = [each for value, step in pairs for each in _each_unit(value, step, prefix or units)]
    return [*plain, *scaled], until, word_read


def _foreign_scale(low: str, end: int) -> re.Match[str] | None:
    word = _FOREIGN_WORD.match(low, end)
    return cldr_scales()[1].match(low, end) if word and word[1] not in english_words() else None


def _each_unit(value: float, step: float, units: tuple[Unit, ...]) -> list[Reading]:
    return [Reading(value, step, unit) for unit in units or (None,)]


def _named_beside(low: str, before: str, end: int, prefix: tuple[Unit, ...]) -> tuple[tuple[Unit, ...], int]:
    """Find a unit that is apart from its number: ``"unit": "celsius"`` after it, ``(°C)`` before it."""
    if prefix:
        return prefix, end
    named = _NAMED_UNIT.match(low[end : end + 60])
    if named:
        units, until = unit_after(low, end + named.end())
        if units:
            return units, until
    line = before.rpartition("\n")[2]
    for label in reversed(list(_LABELLED.finditer(line))):
        units, _ = unit_after(label["bracket"] or label["word"], 0)
        if units and not re.search(r"\d", line[label.end() :]):
            return units, end
    return (), end


def _compounded(low: str, every: list[Quantity]) -> list[Quantity]:
    """Join ``1 h 30 min`` and ``5 ft 11 inches`` into one quantity each."""
    merged: list[Quantity] = []
    for quantity in every:
        joined = _joined(low, merged[-1], quantity) if merged else None
        if joined:
            merged[-1] = joined
        else:
            merged.append(quantity)
    return merged


def _joined(low: str, left: Quantity, right: Quantity) -> Quantity | None:
    if not _COMPOUND_GAP.match(low[left.end : right.start]):
        return None
    if low[left.end : right.start] == " " and not _has_unit(low[right.start : right.end]):
        cents = right.readings[0]
        money = [each for each in left.readings if each.unit and each.unit.dimension.startswith("currency")]
        if money and money[0].step >= 1 and cents.step >= 1 and 10 <= cents.value < 100:  # eight euros sixty
            price = replace(money[0], value=money[0].value + cents.value / 100, step=0.01)
            return Quantity(left.start, right.end, (price,))
    for large, small in product(left.readings, right.readings):
        reading = _sum_of(large, small)
        if reading:
            return Quantity(left.start, right.end, (reading,))
    return None


def _has_unit(low: str) -> bool:
    return any(word[0] in unit_words() for word in _LETTERS_OR_SIGN.finditer(low))


def _sum_of(large: Reading, small: Reading) -> Reading | None:
    """Add in the larger unit; None unless the smaller part is less than one larger unit."""
    if large.unit is None or small.unit is None or large.unit == small.unit or large.step < 1:
        return None
    if large.unit.dimension != small.unit.dimension or not (
        large.unit.dimension in _COMPOUND or small.unit.hundredth
    ):
        return None
    part = converted(small.value, small.unit, large.unit)
    step = converted(small.step, small.unit, large.unit)
    return Reading(large.value + part, step, large.unit) if 0 <= part < 1 else None


def in_unit(mentions: list[Quantity], unit: str | None) -> list[Quantity]:
    """Give the quantities without a unit the report's ``unit`` for the text."""
    if unit is None or not unit.strip():
        return mentions
    units = units_of(unit) or (Unit(unit.strip().casefold(), "unknown"),)
    return [in_units(quantity, units) for quantity in mentions]


def in_units(quantity: Quantity, units: Sequence[Unit]) -> Quantity:
    """Give each reading without a unit all of these units."""
    readings = [
        each
        for reading in quantity.readings
        for each in ([reading] if reading.unit else [replace(reading, unit=unit) for unit in units])
    ]
    return replace(quantity, readings=tuple(readings))


def with_shared_units(low: str, mentions: list[Quantity]) -> list[Quantity]:
    """Give every member of a list the unit at its end: ``8 to 10 °C``."""
    shared = list(mentions)
    for at in range(len(shared) - 2, -1, -1):
        left, right = shared[at], shared[at + 1]
        own = any(reading.unit for reading in left.readings)
        units = tuple(reading.unit for reading in right.readings if reading.unit)
        if units and not own and _LIST_GAP.match(low[left.end : right.start]):
            shared[at] = in_units(left, units)
    for at, (left, right) in enumerate(pairwise(shared), start=1):
        units = tuple(reading.unit for reading in left.readings if reading.unit)
        if (
            units
            and not any(reading.unit for reading in right.readings)
            and _OF_THEM.match(low[right.end :][:40])
        ):
            shared[at] = in_units(right, units)
    return shared


_UNCERTAINTY = LazyPattern(r"(?:±|\+/-|\+-|<uncertainty>)\s*$")
_OPERATOR = LazyPattern(r"^\s*\)?\s*(?:[×x*+/÷·^−-]|\*\*|<operator>)\s*\(?\s*$")
_ROOT = LazyPattern(r"(?:√|<root>|\\sqrt\{)\s*(?:the number\s)?\(?$")
_SQUARED = LazyPattern(r"^\s*(?:\^|²|<squared>)")
_PART_OF = LazyPattern(r"^\s*(?:\w{1,15}\s){0,2}<part_of>\s*$")
_EQUALS = LazyPattern(r"\s*=")


def operands(low: str, mentions: Sequence[Quantity]) -> set[int]:
    """Return the indexes of the quantities that are operands of a calculation."""
    there = {at for at, quantity in enumerate(mentions) if _is_operand_alone(low, quantity)}
    for at, (left, right) in enumerate(pairwise(mentions)):
        gap = low[left.end : right.start]
        part = _PART_OF.match(gap) and any(r.unit and r.unit.dimension == "share" for r in left.readings)
        if part or (_OPERATOR.match(gap) and not _is_range(low, left, right)):
            there |= {at, at + 1}
    return there


def is_uncertainty(low: str, quantity: Quantity) -> bool:
    """Return whether the quantity is the uncertainty of the quantity before it."""
    return bool(_UNCERTAINTY.search(low[max(0, quantity.start - 20) : quantity.start]))


def is_squared(low: str, quantity: Quantity) -> bool:
    """Return whether the quantity is raised to a power: ``42²``."""
    return bool(_SQUARED.match(low[quantity.end : quantity.end + 20]))


def _is_operand_alone(low: str, quantity: Quantity) -> bool:
    before = low[max(0, quantity.start - 40) : quantity.start]
    return bool(_ROOT.search(before)) or is_squared(low, quantity)


def _is_range(low: str, left: Quantity, right: Quantity) -> bool:
    """Return whether this is a range (``8-10 °C``), not a calculation (``10 - 2 =``)."""
    gap = low[left.end : right.start].strip()
    units = [reading.unit for reading in (*left.readings, *right.readings) if reading.unit]
    measured = any(unit.dimension != "share" for unit in units)
    return gap in ("-", "/") and (measured or not _EQUALS.match(low, right.end))
