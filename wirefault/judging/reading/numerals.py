"""Numbers written in digits, in the forms of different countries. Pure.

``4.200`` is 4200 in Berlin and 4.2 in London: a numeral has all the values that it may stand for. The
expressions cannot backtrack far, whatever the text. They have no possessive quantifiers, by which early
versions of Python 3.11 get a group's place wrong.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from wirefault.judging.reading.patterns import LazyPattern

# groups of three behind one kind of separator, India's groups, digits with a fraction, a fraction alone
_CORE = (
    r"(?:\d{1,3}(?:(?P<group>[ ,.'_])\d{3})(?:(?P=group)\d{3})*(?!(?P=group)\d{3}|\d)(?:[.,]\d+)?"
    r"|\d{1,2}(?:,\d{2}(?=,))+,\d{3}(?!\d)(?:\.\d+)?"
    r"|\d+(?:\.\d+|(?<!\d,\d)(?<!\d,\d\d)(?<!\d,\d\d\d),(?!\d{1,9},\d)\d+)?|(?<![\d,])[.,]\d+)"
)
_POWER = r"(?:[eE][+-]?\d{1,4}(?!\w)|\s?[x×*·]\s?10(?:\^|\*\*)\{?[+-]?\d{1,4}\}?)?"
_NUMERAL = LazyPattern(rf"(?P<core>{_CORE})(?P<power>{_POWER})")
_EXPONENT = LazyPattern(r"[+-]?\d+(?=\}?$)")
_REST_OF_WORD = LazyPattern(r"[\w.]*")
_LIMIT = 400  # digits; float() of more is slow, and no answer
_AT_MOST = 5000  # numerals of one text


@dataclass(frozen=True)
class Numeral:
    """Where it stands and what it may be worth, the likeliest value first.

    ``step``: one unit of the last digit that each value has.
    """

    start: int
    end: int
    values: tuple[float, ...]
    steps: tuple[float, ...]


def numerals(text: str) -> Iterator[Numeral]:
    """Every numeral outside a word (``Q3``, ``v2``, ``1.2.3`` are none), signs included, in order."""
    at, count = 0, 0
    while count < _AT_MOST and (match := _NUMERAL.search(text, at)):
        at, count = match.end(), count + 1
        if _within_a_word(text, match.start(), match.end()):
            rest = _REST_OF_WORD.match(text, at)
            at = rest.end() if rest else at
            continue
        numeral = _read(match, _sign(text, match.start()))
        if numeral is not None:
            yield numeral


def _within_a_word(text: str, start: int, end: int) -> bool:
    before = text[start - 1 : start]
    if before and (before == "_" or (before.isalpha() and before.isascii())):
        # a currency's code or sign may touch its amount
        return not re.search(
            r"(?<![A-Za-z])(?:[A-Z]{3}|(?:US|CA|AU|R)\$|Rs|[xX])$", text[max(0, start - 5) : start]
        )
    is_chain = bool(re.match(r"[.]\d", text[end : end + 2])) or bool(
        re.search(r"\d\.$", text[max(0, start - 2) : start])
    )
    return is_chain or text[start:end].endswith("_")


def _sign(text: str, start: int) -> int:
    """How many characters before the digits belong to it: a minus or a plus that is no operator or dash."""
    if text[start - 1 : start] not in ("-", "+") or start == 0:
        return 0
    before = text[start - 2 : start - 1]
    return 0 if before.isalnum() or (before in ("-", ")", "]", "%", "°") and before) else 1


def _read(match: re.Match[str], sign: int) -> Numeral | None:
    core, power = match["core"], match["power"]
    if len(core) > _LIMIT:
        return None
    exponent = _EXPONENT.search(power)
    times = int(exponent[0]) if exponent else 0
    factor = -1.0 if sign and match.string[match.start() - 1] == "-" else 1.0
    values, steps = [], []
    for plain in _plain_forms(core):
        value = float(f"{plain}e{times}") * factor
        if math.isfinite(value):
            decimals = len(plain.partition(".")[2])
            values.append(value)
            steps.append(_step(times - decimals))
    if not values:
        return None
    return Numeral(match.start() - sign, match.end(), tuple(values), tuple(steps))


def _step(exponent: int) -> float:
    return 10.0**exponent if abs(exponent) < 300 else 0.0


def _plain_forms(core: str) -> list[str]:
    """What the digits may mean, each as ``float`` takes it."""
    digits = core.translate(str.maketrans("", "", " '_"))
    separators = [character for character in digits if character in ".,"]
    if not separators:
        return [digits]
    last = separators[-1]
    head, _, tail = digits.rpartition(last)
    whole = head.replace(",", "").replace(".", "") or "0"
    fraction, grouped = f"{whole}.{tail}", whole + tail
    if len(set(separators)) == 2 or digits != core:  # another separator made the groups
        return [fraction]
    if len(separators) > 1:
        return [grouped]
    if len(tail) != 3 or not 1 <= len(head) <= 3 or head.startswith("0"):
        return [fraction]
    return [grouped, fraction] if last == "," else [fraction, grouped]


def number_of(digits: str) -> float | None:
    """The likeliest number that the digits write, or None if they write none."""
    match = _NUMERAL.fullmatch(digits)
    numeral = _read(match, 0) if match else None
    return numeral.values[0] if numeral else None
