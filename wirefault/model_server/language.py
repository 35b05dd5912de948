"""What the scripted model knows of English (``words.yaml``), and what a prompt names plainly. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from dateutil import parser

from wirefault.core.strict_yaml import read_yaml

_FILE = Path(__file__).with_name("words.yaml")
WORDS: Mapping[str, Any] = read_yaml(_FILE.read_text(encoding="utf-8"), str(_FILE))


def expanded(pattern: str) -> str:
    """The pattern with those in the place of their names that it has in braces."""
    return re.sub(r"\{([a-z_]+)\}", lambda name: expanded(WORDS["patterns"][name[1]]), pattern)


_ANY_OF = {name: rf"\b(?:{'|'.join(words)})\b" for name, words in WORDS["any_of"].items()}
_WRITTEN = {**{name: expanded(pattern) for name, pattern in WORDS["patterns"].items()}, **_ANY_OF}
PATTERNS = {name: re.compile(pattern, re.IGNORECASE) for name, pattern in _WRITTEN.items()}
UNREADABLE = (ValueError, OverflowError)
SLOTS: Mapping[str, str] = {kind: expanded(pattern) for kind, pattern in WORDS["slots"].items()}
_KINDS = {kind: re.compile(expanded(pattern)) for kind, pattern in WORDS["evidence"].items()}


def listed(name: str) -> frozenset[str]:
    """The words under that name in ``words.yaml``."""
    return frozenset(WORDS[name].split())


def stem(word: str) -> str:
    """A word without the endings in which a tool's name and a sentence differ."""
    word = word.casefold().replace("’", "'").removesuffix("'s")
    word = re.sub(r"(?<=..)ies$|(?<=...)(?:ing|e[ds]|(?<!s)s)$", lambda end: "y" * (end[0] == "ies"), word)
    return word.removesuffix("e") if len(word) > 3 else word


@cache
def stems(words: str) -> frozenset[str]:
    """The stems of the words in a text."""
    return frozenset(stem(word) for word in re.findall(r"[\w'’]+", words))


def words_of(name: str) -> list[str]:
    """The words of a name, whatever its style: ``getOrderStatus``, ``get-order``, ``orders.get``."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W_A-Za-z0-9]+", name)
    return [word.casefold() for word in words]


def name_stems(name: str) -> frozenset[str]:
    """The stems of the words of a name."""
    return frozenset(map(stem, words_of(name)))


def verb_class(word: str) -> str:
    """``read``, ``create``, ``delete``, ``send`` or ``change``; empty for what is no verb known here."""
    return next((kind for kind in WORDS["verbs"] if stem(word) in stems(WORDS["verbs"][kind])), "")


def bare(sentence: str) -> str:
    """A sentence without words of politeness around it and without its final mark."""
    return PATTERNS["trailing"].sub("", PATTERNS["polite"].sub("", sentence.strip()))


def today_of(system: str) -> date | None:
    """The day that the system message calls today: the first date with a year in it."""
    dates = (match[0] for match in PATTERNS["date"].finditer(system) if re.search(r"\d{4}", match[0]))
    return next((_day(text.casefold(), None) for text in dates), None)


def read_slot(kind: str, text: str, today: date | None, languages: Mapping[str, str]) -> Any:
    """The value of a slot's text. Raises one of ``UNREADABLE`` for what is no such thing."""
    words = text.strip().casefold().removeprefix("the ")
    unquoted = text.strip()[1:-1] if PATTERNS["quoted"].fullmatch(text.strip()) else text.strip()
    if kind in ("date", "time") and not PATTERNS[kind].fullmatch(words):
        raise ValueError(text)
    if kind == "date":
        return _day(words, today).isoformat()
    if kind == "time":
        clock = {"noon": "12:00", "midnight": "00:00"}.get(words) or re.sub(r"(?<=\d)\.(?=\d)", ":", words)
        return f"{parser.parse(clock, default=datetime(2000, 1, 1)):%H:%M}"
    if kind == "expression":
        for spoken, signs in WORDS["spoken"]:
            unquoted = re.sub(spoken, signs, unquoted, flags=re.IGNORECASE)
        if not PATTERNS["arithmetic"].fullmatch(unquoted):
            raise ValueError(text)
    if kind == "places":
        return re.split(r",? and (?:in )?|, (?:in )?", text)
    # words that stand for something else are no text of their own
    stands_for_results = kind == "text" and re.fullmatch(SLOTS["results"], text, re.IGNORECASE)
    if stands_for_results or (kind == "language" and words not in languages):
        raise ValueError(text)
    return languages[words] if kind == "language" else unquoted.removeprefix("#" * (kind == "id"))


def _day(words: str, today: date | None) -> date:
    """Without a year it is the next such day, and needs a today."""
    has_year = re.search(r"\d{4}", words) is not None
    if today is None and not has_year:
        raise ValueError(words)
    start = datetime.combine(today or date(2000, 1, 1), time())
    if words in WORDS["relative_days"]:
        return (start + timedelta(days=WORDS["relative_days"][words])).date()
    day: datetime = parser.parse(words, default=start)
    if day < start and not has_year:
        day = parser.parse(f"{words} {start.year + 1}", default=start)
    return day.date()


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
        plain = re.sub(r"[$€£%, #]", "", self.value)
        whole = re.fullmatch(r"\d+(\.\d+)?", plain)
        return None if not whole else float(plain) if whole[1] else int(plain)


def gather(prompt: str, today: date | None) -> list[Evidence]:
    """All evidence in the prompt, in its order, no text taken twice."""
    gathered: list[Evidence] = []
    for kind, pattern in _KINDS.items():
        for match in pattern.finditer(blanked(prompt, gathered)):
            with suppress(*UNREADABLE):
                gathered.append(Evidence(kind, read_slot(kind, match[0], today, {}), *match.span()))
    return sorted(gathered, key=lambda piece: piece.start)


def blanked(text: str, pieces: Sequence[Evidence]) -> str:
    """The text with null characters in the place of the evidence."""
    for piece in pieces:
        text = text[: piece.start] + "\0" * (piece.end - piece.start) + text[piece.end :]
    return text
