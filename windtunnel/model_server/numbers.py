"""Numbers in text: figures, number words, and the form in which they are written out again."""

from __future__ import annotations

import re
from dataclasses import dataclass

from windtunnel.model_server.lexicon import wordlist

_SMALL = wordlist(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_TENS = wordlist("twenty thirty forty fifty sixty seventy eighty ninety")
_UNITS = {word: value for value, word in enumerate(_SMALL)} | {"dozen": 12}
_UNITS |= {word: 10 * (value + 2) for value, word in enumerate(_TENS)}
_SCALES = {"hundred": 100, "thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_WORD = "|".join(sorted([*_UNITS, *_SCALES], key=len, reverse=True))
FIGURE = r"(?<![\w.])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|(?<![\w.])-?\d+(?:\.\d+)?|(?<![\w.])-?\.\d+"
NUMBER_WORDS = (
    rf"\b(?:(?:a|an)\s+(?=hundred|thousand|million|dozen|billion))?(?:{_WORD})(?:(?:[\s-]+"
    rf"|\s+and\s+)(?:{_WORD}))*\b"
)
_NUMBER = re.compile(rf"{FIGURE}|{NUMBER_WORDS}", re.IGNORECASE)


@dataclass(frozen=True)
class Number:
    start: int
    end: int
    value: float

    @property
    def text(self) -> str:
        return plain(self.value)


def plain(value: float) -> str:
    """The shortest usual writing: 12, 0.5, never 1e+16 or 12.0."""
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.10g}"


def tidy(value: float) -> int | float:
    """An int where the value is whole, so that JSON says 3 and not 3.0."""
    return int(value) if value == int(value) and abs(value) < 1e15 else value


def find_numbers(text: str) -> list[Number]:
    """Every number of the text in order, figures (``1,200.5``) and words (``twenty-five``)."""
    return [Number(m.start(), m.end(), parse_number(m.group())) for m in _NUMBER.finditer(text)]


def parse_number(text: str) -> float:
    """The value of figures or of number words; raises ``ValueError`` for anything else."""
    figure = text.replace(",", "")
    if re.fullmatch(r"-?\d*\.?\d+", figure):
        return float(figure)
    total = current = 0.0
    for word in re.findall(r"[a-z]+", text.lower()):
        if word in _SCALES:
            current = max(current, 1) * _SCALES[word]
            if word != "hundred":
                total, current = total + current, 0.0
        elif word == "dozen":
            current = max(current, 1) * 12
        elif word in _UNITS:
            current += _UNITS[word]
        elif word not in ("and", "a", "an"):
            raise ValueError(f"{text!r} is no number")
    return total + current
