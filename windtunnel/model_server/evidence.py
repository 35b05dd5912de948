"""What a prompt names plainly (quoted texts, dates, ids, numbers, names), and a playbook's slots. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

from dateutil import parser

from windtunnel.model_server.words import WORDS, compiled, expanded

SLOTS: Mapping[str, str] = {kind: expanded(pattern) for kind, pattern in WORDS["slots"].items()}
QUOTED = compiled("quoted")
_DATE, _TIME, _POLITE, _TRAILING = map(compiled, ("date", "time", "polite", "trailing"))
_SAYING, _ANOTHER, _ARITHMETIC = map(compiled, ("saying", "another", "arithmetic"))
_GIVEN = {kind: re.compile(pattern) for kind, pattern in WORDS["evidence"].items()}
_KINDS = {"quote": QUOTED, **_GIVEN, "date": _DATE, "time": _TIME}


class NotThisKind(ValueError):
    """The text is no such slot's."""


def unquoted(text: str) -> str:
    """The text without quotes around it."""
    return text[1:-1] if QUOTED.fullmatch(text) else text


def bare(sentence: str) -> str:
    """A sentence without words of politeness around it and without its final mark."""
    return _TRAILING.sub("", _POLITE.sub("", sentence.strip()))


def today_of(system: str) -> date | None:
    """The day that the system message calls today: the first date with a year in it."""
    dates = (match[0] for match in _DATE.finditer(system) if re.search(r"\d{4}", match[0]))
    return next((read_date(text, None) for text in dates), None)


def read_date(text: str, today: date | None) -> date:
    """Raises ``NotThisKind`` for what is no day, and for what needs a today where there is none."""
    words = text.strip().casefold().removeprefix("the ")
    has_year = re.search(r"\d{4}", words) is not None
    if not _DATE.fullmatch(words) or (today is None and not has_year):
        raise NotThisKind(text)
    today = today or date(2000, 1, 1)
    if words in WORDS["relative_days"]:
        return today + timedelta(days=WORDS["relative_days"][words])
    day = _parsed(words, today).date()
    return day if day >= today or has_year else _parsed(f"{words} {today.year + 1}", today).date()


def read_time(text: str) -> str:
    """``3pm`` as ``15:00``. Raises ``NotThisKind``."""
    words = text.strip().casefold()
    if not _TIME.fullmatch(words):
        raise NotThisKind(text)
    clock = {"noon": "12:00", "midnight": "00:00"}.get(words) or re.sub(r"(?<=\d)\.(?=\d)", ":", words)
    return f"{_parsed(clock, date(2000, 1, 1)):%H:%M}"


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
    if unknown_language or (kind == "text" and re.fullmatch(SLOTS["results"], text, re.IGNORECASE)):
        raise NotThisKind(text)
    return languages[text.casefold()] if kind == "language" else unquoted(text.strip())


@dataclass(frozen=True)
class Evidence:
    """A piece of the prompt from ``start`` to ``end``, and the value that it stands for."""

    kind: str
    value: str
    start: int
    end: int

    @property
    def number(self) -> float | int | None:
        """The value as a number; None for what is none."""
        plain = re.sub(r"[$€£%, #]", "", self.value).casefold()
        if plain in WORDS["counts"]:
            return int(WORDS["counts"].index(plain))
        if not re.fullmatch(r"\d+(?:\.\d+)?", plain):
            return None
        return float(plain) if "." in plain else int(plain)

    def overlaps(self, other: Evidence) -> bool:
        return self.start < other.end and other.start < self.end


def gather(prompt: str, today: date | None) -> list[Evidence]:
    """All evidence in the prompt, in its order, no text taken twice; what follows "saying" is one message."""
    gathered: list[Evidence] = []
    for kind, pattern in _KINDS.items():
        for match in pattern.finditer(blanked(prompt, gathered)):
            start, end = _name_span(prompt, *match.span()) if kind == "name" else match.span()
            if start < end:
                with suppress(NotThisKind):
                    value = read_slot(kind, prompt[start:end], today, {})
                    gathered.append(Evidence(kind, value, start, end))
    match = _SAYING.search(
        blanked(prompt, [piece for piece in gathered if piece.kind in ("quote", "url", "time")])
    )
    if match and not _ANOTHER.search(match["text"]) and "\0" not in match["text"]:
        gathered = [piece for piece in gathered if piece.end <= match.start()]
        gathered.append(Evidence("message", prompt[match.start("text") :], match.start(), len(prompt)))
    return sorted(gathered, key=lambda piece: piece.start)


def blanked(text: str, pieces: Sequence[Evidence]) -> str:
    """The text with null characters in the place of the evidence."""
    for piece in pieces:
        text = text[: piece.start] + "\0" * (piece.end - piece.start) + text[piece.end :]
    return text


def plain_words(prompt: str, taken: Sequence[Evidence]) -> Iterator[re.Match[str]]:
    """The words outside the evidence."""
    return re.finditer(r"(?<![\0'’\w])[^\W_][\w'’-]*", blanked(prompt, taken))


def _name_span(text: str, start: int, end: int) -> tuple[int, int]:
    """A name without the word that begins the sentence or "I", and without a genitive's ending."""
    if not text[:start].strip() or re.search(r"[.?!:]\s*$", text[:start]):
        start = text.find(" ", start, end) + 1 or end
    if re.match(r"I(?:['’]|$)", text[start:end]):
        start = end
    return start, end - 2 if re.search(r"['’]s$", text[start:end]) else end
