"""Read days and times of day in the forms that people write. Pure.

``12/03/2026`` is in March or in December: a day has all its readings. A day without a year has year 0, which
matches any year.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date as CalendarDay
from functools import lru_cache

from wirefault.judging.reading.languages import LazyPattern, merged
from wirefault.judging.reading.units import LOCALES

_ISO_DAY = LazyPattern(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_CLOCK = LazyPattern(r"[0-9]{2}:[0-9]{2}")
_YEAR_FIRST = LazyPattern(r"(?<![\w.-])(\d{4})([-/.])(\d{1,2})\2(\d{1,2})(?!\d)")
_YEAR_LAST = LazyPattern(r"(?<![\w-])(\d{1,2})([-/.])\s?(\d{1,2})\2\s?(\d{4}|\d{2})(?![\d%°])(?!\.\d)")
_COMPACT = LazyPattern(r"(?<!\w)(20\d{2})(\d{2})(\d{2})(?!\w)")
_EAST_ASIAN = LazyPattern(r"(?:(\d{4})\s?[年년]\s?)?(\d{1,2})\s?[月월]\s?(\d{1,2})\s?[日일号]")
_ORDINAL = r"(?:st|nd|rd|th|er|\.|º|°|ª|o)?"
_OF = r"(?:\s+(?:day\s+of|of|de|del|di)\s+|[\s.,-]+)"
_DAY_FIRST = LazyPattern(
    rf"(?<![\w.])(\d{{1,2}}){_ORDINAL}{_OF}(?:the\s+)?([^\W\d_]{{3,14}})\b\.?(?:(?:,|\s+of|\s+de|\s+del)?[\s-]+(\d{{4}})(?!\d))?"
)
_MONTH_FIRST = LazyPattern(
    rf"(?<!\w)([^\W\d_]{{3,14}})\.?\s+(?:the\s+)?(\d{{1,2}}){_ORDINAL}(?![\w:]|\s?[%°])(?!\.\d)(?:(?:,|\s+of)?\s+(\d{{4}})(?!\d))?"
)
_TIME = LazyPattern(
    r"(?:(?<![\w:.,/-])|(?<=[\dm]-)(?<!-\d\d-)(?<!\d-\d-))(\d{1,2})(?:(?:[:h]|\sh\s|\sheures?\s)(\d{2})(?::\d{2}(?:\.\d+)?)?)\s?(z\b|am\b|pm\b|a\.m\.?|p\.m\.?|<clock_oclock>\b|h\b)?(?![\d%]|\s?min)"
)
_HOUR = LazyPattern(
    r"(?:(?<![\w:.,/-])|(?<=[\dm]-)(?<!-\d\d-)(?<!\d-\d-))(\d{1,2})(?:\.(\d{2}))?\s?(am\b|pm\b|a\.m\.?|p\.m\.?|<clock_oclock>\b)(?:\s?(\d{1,2})\b)?"
)
_BARE_HOUR = LazyPattern(r"(?<![\w:.,/-])(\d{1,2})\s?h\b(?!\s?\d)")
_MILITARY = LazyPattern(r"(?<![\w:.,/-])([01]\d|2[0-3])([0-5]\d)\s?(?:<clock_hours>|h)\b")
_EAST_ASIAN_TIME = LazyPattern(
    r"(?:(午前|上午|早上|오전)|(午後|下午|晚上|오후))?\s?(\d{1,2})\s?[時时点點시](?:\s?(\d{1,2})\s?[分분]|([半반]))?"
)
_SPOKEN_TIME = LazyPattern(
    r"\b(<clock_fractions>|\d{1,2} <clock_minutes>|\d{1,2}(?= past))"
    r"(?: (<clock_past>)| (<clock_before>))? (\d{1,2})(?![\d:])(?: <clock_oclock>)?"
)
_ISO_BEFORE = LazyPattern(r"t\d\d:\d\d(?::\d\d(?:\.\d+)?)?-$")
_MORNING = LazyPattern(r"[ ,]{0,2}<clock_morning>")
_AFTERNOON = LazyPattern(r"[ ,]{0,2}<clock_afternoon>")
_NAMED_TIME = LazyPattern(r"\b<clock_named>\b")
_ENGLISH_SHORT = "sept"
_ENGLISH_WORDS = frozenset({"out", "set", "ago"})  # months elsewhere, but "18 out of 240"


@dataclass(frozen=True)
class DayOrTime:
    """A day or a time of day in a text."""

    start: int
    end: int
    readings: tuple[str, ...]  # YYYY-MM-DD (year 0000: without a year) or HH:MM


def is_day(text: str) -> bool:
    """Return whether a text is a day in ISO form."""
    return bool(_ISO_DAY.fullmatch(text)) and _day(*map(int, text.split("-"))) is not None


def is_clock(text: str) -> bool:
    """Return whether a text is a time of day such as ``14:30``."""
    return bool(_CLOCK.fullmatch(text)) and _clock(int(text[:2]), int(text[3:]), "") is not None


def same_day(day: str, reading: str) -> bool:
    """Return whether a reading is that day. A reading without a year matches any year."""
    return day == reading or (reading.startswith("0000") and day[4:] == reading[4:])


def normalised_day(text: str) -> str:
    """Return the only day in a text in the lab's services' form. Raises ``ValueError``."""
    days = list(days_in(text.casefold().strip()))
    if len(days) != 1 or (days[0].start, days[0].end) != (0, len(text.strip())):
        raise ValueError(f"{text!r} is not a date; write YYYY-MM-DD, for example 2026-03-12")
    if len(days[0].readings) > 1:
        raise ValueError(f"{text!r} may be {' or '.join(days[0].readings)}; write YYYY-MM-DD")
    if days[0].readings[0].startswith("0000"):
        raise ValueError(f"{text!r} has no year; write YYYY-MM-DD, for example 2026-03-12")
    return days[0].readings[0]


def normalised_clock(text: str) -> str:
    """Return the only time of day in a text in the lab's services' form. Raises ``ValueError``."""
    times = list(times_in(text.casefold().strip()))
    if len(times) != 1 or (times[0].start, times[0].end) != (0, len(text.strip())):
        raise ValueError(f"{text!r} is not a time of day; write HH:MM from 00:00 to 23:59, for example 14:30")
    return times[0].readings[0]


def days_in(text: str) -> Iterator[DayOrTime]:
    """Yield the valid days in a case-folded text, unordered."""
    for match in _YEAR_FIRST.finditer(text):
        yield from _moment(match, _day(int(match[1]), int(match[3]), int(match[4])))
    for match in _COMPACT.finditer(text):
        yield from _moment(match, _day(int(match[1]), int(match[2]), int(match[3])))
    for match in _YEAR_LAST.finditer(text):
        year = int(match[4]) + (2000 if len(match[4]) == 2 else 0)
        first, second = int(match[1]), int(match[3])
        month_first = None if match[2] == "." else _day(year, first, second)
        yield from _moment(match, _day(year, second, first), month_first)
    for match in _EAST_ASIAN.finditer(text):
        yield from _moment(match, _day(int(match[1] or 0), int(match[2]), int(match[3])))
    for match in _DAY_FIRST.finditer(text):
        yield from _moment(match, _named_day(match[3], match[2], match[1]))
    for match in _MONTH_FIRST.finditer(text):
        yield from _moment(match, _named_day(match[3], match[1], match[2]))


def times_in(text: str, hours: bool = False) -> Iterator[DayOrTime]:
    """Yield the times of day in a case-folded text, unordered; with ``hours`` also ``9h``."""
    for match in _BARE_HOUR.finditer(text) if hours else ():
        yield from _moment(match, _clock(int(match[1]), 0, ""))
    for match in _TIME.finditer(text):
        if _ISO_BEFORE.search(text[max(0, match.start() - 20) : match.start()]):
            continue  # the offset of 2026-03-12T10:00-05:00
        yield from _moment(match, _clock(int(match[1]), int(match[2]), _half(match[3], text, match.end())))
    for match in _HOUR.finditer(text):
        minutes = int(match[2] or match[4] or 0)
        yield from _moment(match, _clock(int(match[1]), minutes, _half(match[3], text, match.end())))
    for match in _MILITARY.finditer(text):
        yield from _moment(match, _clock(int(match[1]), int(match[2]), ""))
    for match in _EAST_ASIAN_TIME.finditer(text):
        half = "am" if match[1] else "pm" if match[2] else ""
        yield from _moment(match, _clock(int(match[3]), int(match[4] or (30 if match[5] else 0)), half))
    for match in _SPOKEN_TIME.finditer(text):
        yield from _moment(match, *_spoken(match, text))
    for match in _NAMED_TIME.finditer(text):
        yield from _moment(match, merged("clock", "named")[match[0]])


def has_half_of_day(text: str) -> bool:
    """Return whether a text begins with a half of the day: ``in the morning``."""
    return bool(_MORNING.match(text) or _AFTERNOON.match(text))


def _half(suffix: str | None, text: str, end: int) -> str:
    """Return ``am`` or ``pm`` from the words after a time of day; empty without such words."""
    if suffix and suffix[0] in "ap":
        return suffix
    return "pm" if _AFTERNOON.match(text, end) else ""


def _spoken(match: re.Match[str], text: str) -> list[str | None]:
    """Read ``quarter to seven``: both morning and evening, unless the text names one."""
    part, hour = match[1].split()[0], int(match[4])
    minutes = merged("clock", "fractions").get(part) or int(part)  # negative: before the hour, as "halb"
    minute = hour * 60 + (-abs(minutes) if match[3] else minutes)
    is_am, is_pm = _MORNING.match(text, match.end()), _AFTERNOON.match(text, match.end())
    halves = [720] if is_pm and hour <= 12 else [0] if is_am or hour > 12 else [0, 720]
    there = [(minute % 720 if hour <= 12 else minute) + half for half in halves]
    return [_clock(each // 60, each % 60, "") for each in there]


def _moment(match: re.Match[str], *readings: str | None) -> Iterator[DayOrTime]:
    there = tuple(dict.fromkeys(reading for reading in readings if reading is not None))
    if there:
        yield DayOrTime(match.start(), match.end(), there)


def _day(year: int, month: int, day: int) -> str | None:
    try:
        CalendarDay(year or 2000, month, day)  # 2000 is a leap year
    except ValueError:
        return None
    return f"{year:04}-{month:02}-{day:02}"


def _named_day(year: str | None, name: str, day: str) -> str | None:
    month = _month(name)
    if not year and name in _ENGLISH_WORDS:
        return None
    return _day(int(year or 0), month, int(day)) if month else None


def _clock(hour: int, minute: int, half: str) -> str | None:
    half = half.replace(".", "")
    if half in ("am", "pm"):
        if not 1 <= hour <= 12:
            return f"{hour:02}:{minute:02}" if 12 < hour < 24 and half == "pm" and minute < 60 else None
        hour = hour % 12 + (12 if half == "pm" else 0)
    return f"{hour:02}:{minute:02}" if hour < 24 and minute < 60 else None


def _month(name: str) -> int | None:
    english = _months(("en",)).get(name)
    if english or not 3 <= len(name) <= 14:
        return english
    return _months(LOCALES).get(name)


@lru_cache(maxsize=2)
def _months(locales: tuple[str, ...]) -> dict[str, int]:
    """Return the names of the months and their short forms, with and without accents."""
    from babel import Locale

    months = {_ENGLISH_SHORT: 9}
    for locale in locales:
        names = Locale(locale).months
        for context in ("format", "stand-alone"):
            for width in ("wide", "abbreviated"):
                for number, name in names[context][width].items():
                    spelt = name.casefold().rstrip(".")
                    if len(spelt) >= 3 and spelt.isalpha():
                        months.setdefault(spelt, number)
                        months.setdefault(_without_accents(spelt), number)
    return months


def _without_accents(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))
