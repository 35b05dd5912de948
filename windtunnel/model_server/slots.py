"""Slots of a playbook's sentence: what text each kind takes, and the value that it stands for. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Any

from dateutil import parser

from windtunnel.model_server.words import WORDS

_QUOTES = r"\"[^\"]*\"|“[^”]*”|‘[^’]*’|(?<!\w)'(?:[^']|(?<=\w)'(?=\w))*'(?!\w)"
QUOTED = re.compile(_QUOTES)
_WORD = r"(?-i:[A-Z])[\w'’-]*"
_PLACE = rf"{_WORD}(?:[ -](?:(?:de|of|del|la|el|am|do)[ -])?{_WORD})*"
_FOUND = (
    "results?|answers?|values?|heights?|temperatures?|weather|translations?|totals?|sums?|forecasts?|reply"
)
PATTERNS: Mapping[str, str] = {
    "text": rf"(?:{_QUOTES}|[^\s\"“].*?)",
    "quoted": rf"(?:{_QUOTES})",
    "name": rf"{_WORD}(?: {_WORD})*",
    "place": _PLACE,
    "places": rf"{_PLACE}(?:(?:,? and |, )(?:in )?{_PLACE})*",
    "date": r".+?",
    "time": r".+?",
    "expression": r".+?",
    "language": r"\w+",
    "results": rf"(?:it|this|that|them|both|(?:the|both) (?:{_FOUND})\b(?: there)?)",
}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_RELATIVE = {"yesterday": -1, "today": 0, "tonight": 0, "tomorrow": 1, "day after tomorrow": 2}
_LONGEST_FIRST = "|".join(sorted(_RELATIVE, key=len, reverse=True))
_WEEKDAY, _MONTH = (
    "|".join(_DAYS),
    r"(?:jan|feb|mar|apr|may|ju[nl]|aug|sep|oct|nov|dec)[a-z]*",
)
DATE = re.compile(
    rf"\d{{4}}-\d\d?-\d\d?|(?:(?:{_WEEKDAY}),? )?\d\d?(?:st|nd|rd|th)?(?: of)? {_MONTH}\b\.?(?:,? \d{{4}})?"
    rf"|{_MONTH}\.? \d\d?(?:st|nd|rd|th)?\b(?:,? \d{{4}})?|(?:the )?{_LONGEST_FIRST}"
    rf"|(?:{_WEEKDAY})\b",
    re.IGNORECASE,
)
TIME = re.compile(r"\d\d?[:.]\d\d(?: ?[ap]\.?m\.?)?|\d\d? ?[ap]\.?m\b\.?|noon|midnight", re.IGNORECASE)
_POLITE = re.compile(
    r"^(?:please,? |(?:could|can|would|will) you (?:please )?|i(?:['’]d| would) like (?:you )?to "
    r"|i (?:want|need) (?:you )?to )+",
    re.IGNORECASE,
)
_TRAILING = re.compile(r"(?:,? (?:please|for me|thanks))*[\s.?!]*$", re.IGNORECASE)
_ARITHMETIC = re.compile(r"(?=.*\d)(?=.*(?:sqrt|[-+*/%]))(?:sqrt(?=\()|\d+(?:\.\d+)?|[-+*/%() ])+")


class NotThisKind(ValueError):
    """The text is no such slot's."""


def unquoted(text: str) -> str:
    """The text without quotes around it."""
    return text[1:-1] if QUOTED.fullmatch(text) else text


def bare(sentence: str) -> str:
    """A sentence without words of politeness around it and without its final mark."""
    return _TRAILING.sub("", _POLITE.sub("", sentence.strip()))


def today_of(system: str) -> date | None:
    """The day that the system message calls today: the first date with figures in it."""
    dates = (match[0] for match in DATE.finditer(system) if re.search(r"\d", match[0]))
    return next((read_date(text, None) for text in dates if re.search(r"\d{4}", text)), None)


def read_date(text: str, today: date | None) -> date:
    """Raises ``NotThisKind`` for what is no day, and for what needs a today where there is none."""
    words = text.strip().casefold().removeprefix("the ")
    if not DATE.fullmatch(words) or (today is None and not re.search(r"\d{4}", words)):
        raise NotThisKind(text)
    today = today or date(2000, 1, 1)
    if words in _RELATIVE:
        return today + timedelta(days=_RELATIVE[words])
    if words in _DAYS:
        return today + timedelta(days=(_DAYS.index(words) - today.weekday()) % 7)
    day = _parsed(words, today).date()
    return (
        day
        if day >= today or re.search(r"\d{4}", words)
        else _parsed(f"{words} {today.year + 1}", today).date()
    )


def read_time(text: str) -> str:
    """``3pm`` as ``15:00``. Raises ``NotThisKind``."""
    words = text.strip().casefold()
    if not TIME.fullmatch(words):
        raise NotThisKind(text)
    named = {"noon": "12:00", "midnight": "00:00"}
    return named.get(words) or _parsed(re.sub(r"(?<=\d)\.(?=\d)", ":", words), date(2000, 1, 1)).strftime(
        "%H:%M"
    )


def _parsed(words: str, day: date) -> datetime:
    try:
        moment: datetime = parser.parse(words, default=datetime.combine(day, time()))
    except (ValueError, OverflowError) as error:
        raise NotThisKind(words) from error
    return moment


def read_expression(text: str) -> str:
    """Arithmetic in words or signs, as signs. Raises ``NotThisKind`` for what has nothing to calculate."""
    expression = unquoted(text.strip())
    for spoken, signs in WORDS["spoken"]:
        expression = re.sub(spoken, signs, expression, flags=re.IGNORECASE)
    if not _ARITHMETIC.fullmatch(expression):
        raise NotThisKind(text)
    return expression.strip()


def read_slot(kind: str, text: str, today: date | None, languages: Mapping[str, str]) -> Any:
    """The value of a slot's text. Raises ``NotThisKind``."""
    if kind == "date":
        return read_date(text, today).isoformat()
    if kind in ("time", "expression"):
        return (read_time if kind == "time" else read_expression)(text)
    if kind == "places":
        return re.split(r",? and (?:in )?|, (?:in )?", text)
    unknown_language = kind == "language" and text.casefold() not in languages
    # words that stand for something else are no text of their own
    if unknown_language or (kind == "text" and re.fullmatch(PATTERNS["results"], text, re.IGNORECASE)):
        raise NotThisKind(text)
    return languages[text.casefold()] if kind == "language" else unquoted(text.strip())
