"""What a prompt names plainly: quoted texts, addresses, dates, times, ids, numbers and names. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date

from windtunnel.model_server.slots import (
    DATE,
    QUOTED,
    TIME,
    NotThisKind,
    read_date,
    read_expression,
    read_time,
    unquoted,
)
from windtunnel.model_server.words import WORDS

_GIVEN = {kind: re.compile(pattern) for kind, pattern in WORDS["evidence"].items()}
_KINDS = {"quote": QUOTED, **_GIVEN, "date": DATE, "time": TIME}
_SUM, _SAYING, _ANOTHER = (re.compile(WORDS[name], re.IGNORECASE) for name in ("sum", "saying", "another"))


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
    """All evidence in the prompt, in its order, no text taken twice; of a sum, that alone."""
    if match := _SUM.fullmatch(prompt):
        try:
            return [Evidence("sum", read_expression(match["sum"]), 0, match.end())]
        except NotThisKind:
            pass  # a question of another kind
    gathered: list[Evidence] = []
    for kind, pattern in _KINDS.items():
        for match in pattern.finditer(blanked(prompt, gathered)):
            start, end = match.span()
            if kind == "name":
                start, end = _name_span(prompt, start, end)
            value = _value(kind, prompt[start:end], today)
            if start < end and value is not None:
                gathered.append(Evidence(kind, value, start, end))
    return sorted(gathered, key=lambda piece: piece.start)


def with_message(prompt: str, pieces: Sequence[Evidence]) -> list[Evidence] | None:
    """The evidence with what follows "saying" or a colon as one text; None if there is no such text."""
    match = _SAYING.search(
        blanked(prompt, [piece for piece in pieces if piece.kind in ("quote", "url", "time")])
    )
    if match is None or _ANOTHER.search(match["text"]) or "\0" in match["text"]:
        return None
    kept = [piece for piece in pieces if piece.end <= match.start()]
    return [*kept, Evidence("message", prompt[match.start("text") :], match.start(), len(prompt))]


def blanked(text: str, pieces: Sequence[Evidence]) -> str:
    """The text with null characters in the place of the evidence."""
    for piece in pieces:
        text = text[: piece.start] + "\0" * (piece.end - piece.start) + text[piece.end :]
    return text


def plain_words(prompt: str, taken: Sequence[Evidence]) -> Iterator[re.Match[str]]:
    """The words outside the evidence."""
    return re.finditer(r"(?<![\0'’\w])[^\W_][\w'’-]*", blanked(prompt, taken))


def _name_span(text: str, start: int, end: int) -> tuple[int, int]:
    """A name without the word that begins the sentence, and without a genitive's ending."""
    if not text[:start].strip() or re.search(r"[.?!:]\s*$", text[:start]):
        start = text.find(" ", start, end) + 1 or end
    return start, end - 2 if re.search(r"['’]s$", text[start:end]) else end


def _value(kind: str, text: str, today: date | None) -> str | None:
    try:
        if kind in ("date", "time"):
            return read_date(text, today).isoformat() if kind == "date" else read_time(text)
    except NotThisKind:
        return None
    return None if kind == "name" and re.split("['’]", text)[0] == "I" else unquoted(text)
