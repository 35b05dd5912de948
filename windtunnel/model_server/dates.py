"""Dates in English, absolute and relative to a given today.

12/03/2026 is read day first, unless that is no date. "Friday" is the next one to come, "next Friday" the one
in next week's calendar week, a day of a month without a year the next one that is not past.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache

from windtunnel.model_server.lexicon import wordlist
from windtunnel.model_server.numbers import parse_number

DEFAULT_TODAY = date(2026, 3, 2)

_MONTHS = wordlist("january february march april may june july august september october november december")
_DAYS = wordlist("monday tuesday wednesday thursday friday saturday sunday")
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY = r"(?:mon|tues?|wed(?:nes)?|thu(?:rs?)?|fri|sat(?:ur)?|sun)(?:day)?"
_COUNT = r"(?:\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fourteen|twenty|thirty)"
_ORDINALS = wordlist(
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth "
    "thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
)
_NTH = (
    rf"(?:\d{{1,2}}(?:st|nd|rd|th)?|{'|'.join(_ORDINALS)}|twenty-(?:{'|'.join(_ORDINALS[:9])})"
    rf"|thirtieth|thirty-first)"
)


@dataclass(frozen=True)
class Dated:
    start: int
    end: int
    value: date


def _number(text: str) -> int:
    return 1 if text.lower() in ("a", "an") else int(parse_number(text))


def _nth(text: str) -> int:
    text = text.lower()
    if text[0].isdigit():
        return int(re.match(r"\d+", text)[0])  # type: ignore[index]
    if text.startswith("twenty-"):
        return 20 + _ORDINALS.index(text[7:]) + 1
    return {"thirtieth": 30, "thirty-first": 31}.get(text) or _ORDINALS.index(text) + 1


def _month(text: str) -> int:
    return next(i for i, name in enumerate(_MONTHS, 1) if name.startswith(text.lower()[:3]))


def _weekday(text: str) -> int:
    return next(i for i, name in enumerate(_DAYS) if name.startswith(text.lower()[:3]))


def _add_months(day: date, months: int) -> date:
    index = day.year * 12 + day.month - 1 + months
    for last in (day.day, 30, 29, 28):
        try:
            return date(index // 12, index % 12 + 1, min(day.day, last))
        except ValueError:
            continue
    raise ValueError("no such month")


def _later(day: date, count: int, unit: str) -> date:
    unit = unit.lower()
    if unit.startswith("day"):
        return day + timedelta(days=count)
    if unit.startswith(("week", "fortnight")):
        return day + timedelta(weeks=count * (2 if unit.startswith("f") else 1))
    return _add_months(day, count * (12 if unit.startswith("year") else 1))


def _in_year(today: date, month: int, day: int, year: str | None) -> date:
    if year:
        return date(int(year) + (2000 if len(year) == 2 else 0), month, day)
    found = date(today.year, month, day)
    return found if found >= today else date(today.year + 1, month, day)


def _numeric(first: str, second: str, year: str, today: date) -> date:
    day, month = int(first), int(second)
    return _in_year(today, *((day, month) if month > 12 else (month, day)), year)


def _on_weekday(today: date, which: str | None, name: str) -> date:
    target = _weekday(name)
    which = (which or "").strip().lower()
    monday = today - timedelta(days=today.weekday())
    if which == "next":
        return monday + timedelta(days=7 + target)
    if which == "last":
        return today - timedelta(days=(today.weekday() - target - 1) % 7 + 1)
    ahead = (target - today.weekday()) % 7
    return today + timedelta(days=ahead if ahead or which == "this" else 7)


def _of_week(today: date, name: str, weeks: int) -> date:
    return today - timedelta(days=today.weekday()) + timedelta(days=7 * weeks + _weekday(name))


def _nth_of_month(today: date, day: int) -> date:
    for ahead in range(13):
        index = today.year * 12 + today.month - 1 + ahead
        try:
            found = date(index // 12, index % 12 + 1, day)
        except ValueError:
            continue
        if found >= today:
            return found
    raise ValueError("no such day")


def _start(text: str, today: date) -> date:
    """The day from which "two weeks from ..." counts."""
    return find_dates(text.replace("now", "today"), today)[0].value


_Rule = tuple[re.Pattern[str], Callable[[re.Match[str], date], date]]


def _rule(pattern: str, reading: Callable[[re.Match[str], date], date]) -> _Rule:
    return re.compile(pattern, re.IGNORECASE), reading


_RULES: tuple[_Rule, ...] = (
    _rule(r"\b(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})(?!\d)", lambda m, t: date(int(m[1]), int(m[2]), int(m[3]))),
    _rule(r"\b(\d{1,2})([/.-])(\d{1,2})\2(\d{4}|\d{2})\b", lambda m, t: _numeric(m[1], m[3], m[4], t)),
    _rule(
        rf"\b({_MONTH})\s+(?:the\s+)?({_NTH})\b(?!:|\s*(?:am|pm)\b)(?:,?\s+(?:of\s+)?(\d{{4}})\b)?",
        lambda m, t: _in_year(t, _month(m[1]), _nth(m[2]), m[3]),
    ),
    _rule(
        rf"\b(?:the\s+)?({_NTH})\s+(?:of\s+)?({_MONTH})\b(?:,?\s+(?:of\s+)?(\d{{4}})\b)?",
        lambda m, t: _in_year(t, _month(m[2]), _nth(m[1]), m[3]),
    ),
    _rule(r"\b(?:the )?day after tomorrow\b", lambda m, t: t + timedelta(days=2)),
    _rule(r"\b(?:the )?day before yesterday\b", lambda m, t: t - timedelta(days=2)),
    _rule(
        rf"\b({_COUNT}) (days?|weeks?|fortnights?|months?) (?:from|after) (today|now|tomorrow"
        rf"|(?:next |this )?{_DAY}\b)",
        lambda m, t: _later(_start(m[3], t), _number(m[1]), m[2]),
    ),
    _rule(
        rf"\b(?:in|within) ({_COUNT})(?: more)? (days?|weeks?|fortnights?|months?|years?)(?:['’]s? time)?\b",
        lambda m, t: _later(t, _number(m[1]), m[2]),
    ),
    _rule(
        rf"\b({_COUNT}) (days?|weeks?|fortnights?|months?|years?) ago\b",
        lambda m, t: _later(t, -_number(m[1]), m[2]),
    ),
    _rule(
        rf"\b({_DAY}) (?:of |in )?(next|this|the following) week\b|\b(next|this) week (?:on )?({_DAY})\b",
        lambda m, t: _of_week(t, m[1] or m[4], 0 if "this" in (m[2] or m[3]).lower() else 1),
    ),
    _rule(rf"\b({_DAY}) week\b", lambda m, t: _on_weekday(t, None, m[1]) + timedelta(days=7)),
    _rule(
        rf"\b({_DAY}),? (?:the )?({_NTH})(?!\s*(?:am|pm|:|o['’]))\b(?! of| {_MONTH})",
        lambda m, t: _nth_of_month(t, _nth(m[2])),
    ),
    _rule(
        r"\b(next|this|coming|last|following)\s+(monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b",
        lambda m, t: _on_weekday(t, m[1], m[2]),
    ),
    _rule(
        r"\b(mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b((?-i:Mon|Tue|Tues|Wed|Thu|Thur"
        r"|Thurs|Fri|Sat|Sun))\b(?=[ .,?!]|$)",
        lambda m, t: _on_weekday(t, None, m[1] or m[2]),
    ),
    _rule(r"\b(today|tonight|this (?:morning|afternoon|evening))\b", lambda m, t: t),
    _rule(r"\b(tomorrow|tmrw|tomorow)\b", lambda m, t: t + timedelta(days=1)),
    _rule(r"\byesterday\b", lambda m, t: t - timedelta(days=1)),
    _rule(r"\bnext week\b|\ba week today\b", lambda m, t: t + timedelta(days=7)),
    _rule(r"\bnext month\b", lambda m, t: _add_months(t, 1)),
    _rule(r"\b(?:this |the )(?:coming )?weekend\b", lambda m, t: t + timedelta(days=(5 - t.weekday()) % 7)),
    _rule(r"\b(?:on )?(?:new year['’]?s eve)\b", lambda m, t: date(t.year, 12, 31)),
    _rule(r"\b(?:christmas eve)\b", lambda m, t: date(t.year, 12, 24)),
    _rule(r"\b(?:christmas)(?: day)?\b", lambda m, t: date(t.year, 12, 25)),
    _rule(
        r"\b(?:on |by |for )the ({_NTH})\b(?! (?:of|floor))".replace("{_NTH}", r"\d{1,2}(?:st|nd|rd|th)"),
        lambda m, t: _nth_of_month(t, _nth(m[1])),
    ),
)


@lru_cache(maxsize=2048)
def find_dates(text: str, today: date) -> tuple[Dated, ...]:
    """The dates named in the text, in order; what names no real day (30 February) is left out."""
    taken = bytearray(len(text))
    found: list[Dated] = []
    for pattern, reading in _RULES:
        for match in pattern.finditer(text):
            if any(taken[match.start() : match.end()]):
                continue
            try:
                value = reading(match, today)
            except (ValueError, IndexError, OverflowError):
                continue
            taken[match.start() : match.end()] = b"\x01" * (match.end() - match.start())
            found.append(Dated(match.start(), match.end(), value))
    return tuple(_join_names(text, sorted(found, key=lambda dated: dated.start)))


def _join_names(text: str, found: list[Dated]) -> list[Dated]:
    """ "Friday, March 6" and "tomorrow (3 March)" are one date each: the more exact one, the later."""
    joined: list[Dated] = []
    for dated in found:
        before = joined[-1] if joined else None
        exact = any(char.isdigit() for char in text[dated.start : dated.end])
        if before and exact and re.fullmatch(r",?\s*\(?(?:the )?", text[before.end : dated.start]):
            joined[-1] = Dated(before.start, dated.end, dated.value)
        else:
            joined.append(dated)
    return joined


def today_of(system: str) -> date:
    """The date that a system message gives as today's; ``DEFAULT_TODAY`` if it gives none."""
    match = re.search(
        r"\b(?:today(?:['’]s date)?|current date|date today|date)\b\W*(?:is|:|=)?\s*", system, re.IGNORECASE
    )
    while match:
        rest = system[match.end() : match.end() + 60]
        exact = [
            d for d in find_dates(rest, DEFAULT_TODAY) if any(c.isdigit() for c in rest[d.start : d.end])
        ]
        if exact and exact[0].start < 25:
            return exact[0].value
        match = re.compile(r"\b(?:today|date)\b\W*(?:is|:|=)?\s*", re.IGNORECASE).search(system, match.end())
    return DEFAULT_TODAY
