"""Read numbers in digits, in the forms of different countries, and in words. Pure.

``4.200`` is 4200 in Berlin and 4.2 in London: a numeral has all its possible values. The expressions cannot
backtrack far on any text. They avoid possessive quantifiers: early versions of Python 3.11 misplace groups
with them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

from wirefault.judging.reading.languages import LazyPattern, is_common, languages

# groups of three with one kind of separator, Indian groups, digits with a fraction, a fraction alone
_CORE = (
    r"(?:\d{1,3}(?:(?P<group>[ ,.'_])\d{3})(?:(?P=group)\d{3})*(?!(?P=group)\d{3}|\d)(?:[.,]\d+)?"
    r"|\d{1,2}(?:,\d{2}(?=,))+,\d{3}(?!\d)(?:\.\d+)?"
    r"|\d+(?:\.\d+|(?<!\d,\d)(?<!\d,\d\d)(?<!\d,\d\d\d),(?!\d{1,9},\d)\d+)?|(?<![\d,])[.,]\d+)"
)
_POWER = r"(?:[eE][+-]?\d{1,4}(?!\w)|\s?[x×*·]\s?10(?:\^|\*\*)\{?[+-]?\d{1,4}\}?)?"
_NUMERAL = LazyPattern(rf"(?P<core>{_CORE})(?P<power>{_POWER})")
_EXPONENT = LazyPattern(r"[+-]?\d+(?=\}?$)")
_REST_OF_WORD = LazyPattern(r"[\w.]*")
_MAX_DIGITS = 400  # a longer number is never an answer, and slow to parse
_MAX_NUMERALS = 5000  # in one text


@dataclass(frozen=True)
class Numeral:
    """A number in digits."""

    start: int
    end: int
    values: tuple[float, ...]  # the likeliest first
    steps: tuple[float, ...]  # one unit of the last digit of each value


def numerals(text: str) -> Iterator[Numeral]:
    """Yield the numerals outside of words (not ``Q3``, ``v2``, ``1.2.3``), with their signs, in order."""
    at, count = 0, 0
    while count < _MAX_NUMERALS and (match := _NUMERAL.search(text, at)):
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
    if before == "-" and text[start - 2 : start - 1].isalpha() and text[start - 2 : start - 1].isascii():
        return True  # INV-2031
    is_chain = bool(re.match(r"[.]\d", text[end : end + 2])) or bool(
        re.search(r"\d\.$", text[max(0, start - 2) : start])
    )
    return is_chain or text[start:end].endswith("_")


def _sign(text: str, start: int) -> int:
    """Return 1 if a sign precedes the digits that is not an operator or a dash, else 0."""
    if text[start - 1 : start] not in ("-", "+") or start == 0:
        return 0
    before = text[start - 2 : start - 1]
    return 0 if before.isalnum() or (before in ("-", ")", "]", "%", "°") and before) else 1


def _read(match: re.Match[str], sign: int) -> Numeral | None:
    core, power = match["core"], match["power"]
    if len(core) > _MAX_DIGITS:
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
    """Return the possible meanings of the digits, in the syntax of ``float``."""
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
    """Return the likeliest number of a text in digits; None if it is not one."""
    match = _NUMERAL.fullmatch(digits)
    numeral = _read(match, 0) if match else None
    return numeral.values[0] if numeral else None


@dataclass(frozen=True)
class _Language:
    """The number words of one language."""

    words: Mapping[str, int]
    glue: tuple[str, ...]  # between the parts of a number
    point: tuple[str, ...]  # begins the decimals
    ambiguous: frozenset[str]  # words that may mean something else when alone


@cache
def _languages() -> tuple[_Language, ...]:
    return tuple(_number_words(language["numbers"]) for language in languages())


def _number_words(data: Mapping[str, Any]) -> _Language:
    words = {word: value for value, word in enumerate(data["upto_19"].split())}
    tens = enumerate(data["tens"].split(), start=2)
    words |= {word: 10 * ten for ten, spellings in tens for word in spellings.split("|")}
    words |= data["others"]
    ambiguous = frozenset(data.get("ambiguous", "").split())
    return _Language(words, tuple(data["glue"].split("|")), tuple(data["point"].split("|")), ambiguous)


@cache
def _ordinals() -> tuple[list[str], LazyPattern]:
    """Return the English ordinals from first to twentieth, and a pattern that also takes tens before them."""
    words = languages()[0]["numbers"]["ordinals"].split()
    return words, LazyPattern(rf"\b(?:(twenty|thirty)[- ])?({'|'.join(words)}|thirtieth)\b")


_WORD = LazyPattern(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_MAX_WORDS = 3000  # of one text that are read
_MAX_PIECES = 24  # parts of one number
_MAX_WORD = 60  # characters


@dataclass(frozen=True)
class WrittenNumber:
    """A number in words."""

    start: int
    end: int
    value: float
    single: bool  # one small word, which may not be a number at all ("one")


def written_numbers(text: str) -> Iterator[WrittenNumber]:
    """Yield the numbers in words of a case-folded text, each in the language that reads the most words."""
    at = 0
    words = list(islice(_WORD.finditer(text), _MAX_WORDS))
    for place, word in enumerate(words):
        if word.start() < at or not _may_begin(word[0]):
            continue
        run = _run(text, words, place)
        readings = (_reading(language, text, run) for language in _languages())
        value, used = max(readings, key=lambda reading: reading[1])
        is_whole = value is not None and value.is_integer()
        if value is not None and used and not (is_whole and _is_fragment(text, words, place)):
            at = run[used - 1].end()
            yield WrittenNumber(word.start(), at, value, used == 1 and value <= 12 and value.is_integer())


def _is_fragment(text: str, words: list[re.Match[str]], place: int) -> bool:
    """Return whether a number such as "mil" continues a number in an unknown language: "três mil"."""
    if place == 0 or words[place][0] not in _ambiguous():
        return False
    before = words[place - 1]
    return text[before.end() : words[place].start()] == " " and not is_common(before[0])


@cache
def _ambiguous() -> frozenset[str]:
    return frozenset().union(*(language.ambiguous for language in _languages()))


def in_digits(text: str) -> str:
    """Replace numbers in words, and English ordinals, by digits in a case-folded text."""
    text = _ordinals()[1].sub(_ordinal, text)
    parts, at = [], 0
    for number in written_numbers(text):
        if number.value.is_integer() and text[number.start : number.end] not in _ambiguous():
            parts += [text[at : number.start], str(int(number.value))]
            at = number.end
    return "".join([*parts, text[at:]])


def _ordinal(match: re.Match[str]) -> str:
    tens = {"twenty": 20, "thirty": 30}.get(match[1], 0)
    return f"{tens + (30 if match[2] == 'thirtieth' else _ordinals()[0].index(match[2]) + 1)}th"


@cache
def _beginnings() -> frozenset[str]:
    return frozenset(word[:3] for language in _languages() for word in language.words)


def _may_begin(word: str) -> bool:
    return len(word) <= _MAX_WORD and (word[:3] in _beginnings() or word[:1] in _beginnings())


def _run(text: str, words: list[re.Match[str]], first: int) -> list[re.Match[str]]:
    """Return the words from ``first`` that only spaces separate."""
    run = [words[first]]
    for word in words[first + 1 : first + _MAX_PIECES]:
        if text[run[-1].end() : word.start()] not in (" ", "  "):
            break
        run.append(word)
    return run


def _reading(language: _Language, text: str, run: list[re.Match[str]]) -> tuple[float | None, int]:
    """Return the value of the longest number at the start of the run, and its number of words."""
    parts: list[int] = []
    decimals: list[int] | None = None
    best: tuple[float | None, int] = (None, 0)
    for index, word in enumerate(run):
        spelt = word[0]
        if spelt in language.point and parts and decimals is None:
            decimals = []
            continue
        if spelt in language.glue and parts:
            continue
        pieces = _pieces(language, spelt)
        if pieces is None:
            break
        if decimals is None:
            at = pieces.index(-1) if -1 in pieces else len(pieces)
            whole, behind = pieces[:at], pieces[at + 1 :] if -1 in pieces else None
            if not parts and len(whole) == 2 and _is_year(whole[:1], whole[1:]):
                whole = [whole[0], 100, whole[1]]
            if parts and _is_year(parts, whole):
                parts.append(100)
            elif parts and not _continues(parts, whole):
                break
            parts += whole
            decimals = behind
        elif any(piece > 9 for piece in pieces if piece >= 0) and decimals:
            break
        else:
            decimals += pieces
        value = _value(parts) + _fraction(decimals or [])
        best = (value, index + 1)
    return best


def _continues(parts: list[int], more: list[int]) -> bool:
    """Return whether the next word continues the number: ``two`` after ``forty``, not after ``three``."""
    if not more or more[0] >= 100 or parts[-1] >= 100:
        return bool(more)
    return parts[-1] >= 20 and more[0] < (20 if parts[-1] in (60, 80) else 10)


def _is_year(parts: list[int], more: list[int]) -> bool:
    """Return whether the parts are a year such as ``nineteen eighty-four`` or ``twenty nineteen``."""
    return len(parts) == 1 and 13 <= parts[0] <= 20 and bool(more) and 10 <= more[0] < 100


def _pieces(language: _Language, word: str) -> list[int] | None:
    """Split one written word into its parts, -1 for a decimal point; None if it is not a number."""
    if len(word) > _MAX_WORD:
        return None
    pieces: list[int] = []
    at = 0
    while at < len(word):
        length = next(
            (n for n in range(min(16, len(word) - at), 0, -1) if word[at : at + n] in language.words), 0
        )
        if length:
            pieces.append(language.words[word[at : at + length]])
            at += length
            continue
        glue = next((g for g in (*language.glue, "-") if g and word.startswith(g, at)), "")
        point = next((p for p in language.point if word.startswith(p, at)), "")
        if not pieces or not (glue or point):
            return None
        pieces += [-1] if point else []
        at += len(point or glue)
    return pieces or None


def _value(parts: list[int]) -> float:
    total, current, last = 0, 0, 0
    for part in parts:
        if part >= 1000:
            total, current, last = total + max(1, current) * part, 0, 0
        elif part in (10, 100) and 0 < last < 10:
            current, last = current - last + last * part, 0
        elif part == 100 and current:
            current, last = current * part, 0
        else:
            current, last = current + part, part
    return float(total + current)


def _fraction(decimals: list[int]) -> float:
    """Join decimals in reading order; ``forty`` counts as two digits."""
    text = "".join(str(piece) for piece in decimals if piece >= 0)
    return float(f"0.{text}") if text else 0.0
