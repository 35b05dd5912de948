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

from windtunnel.core.strict_yaml import read_yaml

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
_GIVEN = {kind: re.compile(pattern) for kind, pattern in WORDS["evidence"].items()}
_KINDS = {"quote": PATTERNS["quoted"], **_GIVEN, "date": PATTERNS["date"], "time": PATTERNS["time"]}


def listed(name: str) -> frozenset[str]:
    """The words under that name in ``words.yaml``."""
    return frozenset(WORDS[name].split())


def stem(word: str) -> str:
    """A word without the endings in which a tool's name and a sentence differ."""
    word = word.casefold().replace("’", "'").removesuffix("'s")
    ending = r"(?<=..)ies$|(?<=...)(?:ing|e[ds]|(?<!s)s)$"
    word = re.sub(ending, lambda found: "y" if found[0] == "ies" else "", word)
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
    words, unquoted = text.strip().casefold().removeprefix("the "), text.strip()
    unquoted = unquoted[1:-1] if PATTERNS["quoted"].fullmatch(unquoted) else unquoted
    if kind in ("date", "time") and not PATTERNS[kind].fullmatch(words):
        raise ValueError(text)
    if kind == "date":
        return _day(words, today).isoformat()
    if kind == "time":
        clock = {"noon": "12:00", "midnight": "00:00"}.get(words) or re.sub(r"(?<=\d)\.(?=\d)", ":", words)
        return f"{parser.parse(clock, default=datetime(2000, 1, 1)):%H:%M}"
    if kind == "expression":
        return _expression(unquoted)
    if kind == "places":
        return re.split(r",? and (?:in )?|, (?:in )?", text)
    # words that stand for something else are no text of their own
    stands_for_results = kind == "text" and re.fullmatch(SLOTS["results"], text, re.IGNORECASE)
    if stands_for_results or (kind == "language" and words not in languages):
        raise ValueError(text)
    return languages[words] if kind == "language" else unquoted


def _day(words: str, today: date | None) -> date:
    """Without a year it is the next such day, and needs a today."""
    has_year = re.search(r"\d{4}", words) is not None
    if today is None and not has_year:
        raise ValueError(words)
    start = datetime.combine(today or date(2000, 1, 1), time())
    if words in WORDS["relative_days"]:
        return (start + timedelta(days=WORDS["relative_days"][words])).date()
    day: datetime = parser.parse(words, default=start)
    return (
        day if day >= start or has_year else parser.parse(f"{words} {start.year + 1}", default=start)
    ).date()


def _expression(text: str) -> str:
    """Arithmetic in words or signs, as signs."""
    for spoken, signs in WORDS["spoken"]:
        text = re.sub(spoken, signs, text, flags=re.IGNORECASE)
    if not PATTERNS["arithmetic"].fullmatch(text):
        raise ValueError(text)
    return text.strip()


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

    def overlaps(self, other: Evidence) -> bool:
        return self.start < other.end and other.start < self.end


def gather(prompt: str, today: date | None) -> list[Evidence]:
    """All evidence in the prompt, in its order, no text taken twice."""
    gathered: list[Evidence] = []
    for kind, pattern in _KINDS.items():
        for match in pattern.finditer(blanked(prompt, gathered)):
            start, end = _name_span(prompt, *match.span()) if kind == "name" else match.span()
            with suppress(*UNREADABLE):
                if start < end:
                    value = read_slot(kind, prompt[start:end], today, {})
                    gathered.append(Evidence(kind, value, start, end))
    return sorted(gathered, key=lambda piece: piece.start)


def blanked(text: str, pieces: Sequence[Evidence]) -> str:
    """The text with null characters in the place of the evidence."""
    for piece in pieces:
        text = text[: piece.start] + "\0" * (piece.end - piece.start) + text[piece.end :]
    return text


def _name_span(text: str, start: int, end: int) -> tuple[int, int]:
    """A name without the word that begins the sentence or "I", and without a genitive's ending."""
    if not text[:start].strip() or re.search(r"[.?!:]\s*$", text[:start]):
        start = text.find(" ", start, end) + 1 or end
    if re.match(r"I(?:['’]|$)", text[start:end]):
        start = end
    return start, end - 2 if re.search(r"['’]s$", text[start:end]) else end
