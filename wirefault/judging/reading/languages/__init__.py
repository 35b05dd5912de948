"""The languages that the reader knows: one YAML file each next to this module.

Sentences in other languages are recognised but not read. English is first: its words take precedence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from wirefault.core.plain_data import read_yaml

_HERE = Path(__file__).parent
_PLACEHOLDER = re.compile(r"(?<!\?P)<([a-z_]+)>")
_SENTENCE = re.compile(r"[^.!?;\n。！？]+")
_QUOTED = re.compile(r"\"[^\"]{0,500}\"|“[^”]{0,500}”|«[^»]{0,500}»|`[^`]{0,500}`|(?<!\w)'[^']{0,500}'(?!\w)")
_ADDRESS = re.compile(r"[\w.+-]{1,64}@[\w.-]{1,100}|\b[A-Za-z][\w-]{0,60}(?:\.[A-Za-z][\w-]{0,60}){1,9}\b")
_WORD = re.compile(r"[^\W\d_]+")
# letters that none of these languages uses
_OTHER_LATIN = re.compile(r"[ãõłąężźśćńčřžšěůğşıőűåæøðþșțăđħ]")
_MAX_SENTENCES = 400
_MIN_UNKNOWN = 8  # unknown words in lower case that make a sentence of an unknown language


@cache
def languages() -> tuple[Mapping[str, Any], ...]:
    """Read the language files."""
    files = sorted(_HERE.glob("??.yaml"), key=lambda file: (file.stem != "en", file.stem))
    return tuple(read_yaml(file.read_text(encoding="utf-8"), str(file)) for file in files)


class LazyPattern:
    """A pattern that is compiled at first use. ``<name>`` matches the words of that cue."""

    def __init__(self, *parts: str) -> None:
        self._pattern = "".join(parts)

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(_PLACEHOLDER.sub(lambda name: f"(?:{_cues()[name[1]]})", self._pattern))

    def search(self, text: str, at: int = 0) -> re.Match[str] | None:
        return self._compiled.search(text, at)

    def match(self, text: str, at: int = 0) -> re.Match[str] | None:
        return self._compiled.match(text, at)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return self._compiled.fullmatch(text)

    def finditer(self, text: str, at: int = 0) -> Iterator[re.Match[str]]:
        return self._compiled.finditer(text, at)

    def sub(self, replacement: str | Callable[[re.Match[str]], str], text: str) -> str:
        return self._compiled.sub(replacement, text)


@cache
def _cues() -> Mapping[str, str]:
    """Return the alternatives of each cue, topic (``topic_share``) and word of a clock (``clock_past``)."""
    words: dict[str, list[str]] = {}
    for language in languages():
        entries = dict(language["cues"])
        entries |= {f"topic_{name}": [pattern] for name, pattern in language.get("topics", {}).items()}
        clock = language.get("clock", {})
        entries |= {f"clock_{name}": [word] for name, word in clock.items() if isinstance(word, str)}
        for name in ("fractions", "named"):
            entries[f"clock_{name}"] = list(clock.get(name, ()))
        for name, alternatives in entries.items():
            words.setdefault(name, []).extend(alternatives)
    return {name: "|".join(alternatives) for name, alternatives in words.items()}


def merged(*path: str) -> dict[str, Any]:
    """Merge one mapping of all languages, for example ``clock``, ``fractions``."""
    whole: dict[str, Any] = {}
    for language in languages():
        part: Any = language
        for key in path:
            part = part.get(key, {})
        whole |= part
    return whole


@dataclass(frozen=True)
class _CommonWords:
    """The most common words of languages with and without a file here."""

    readable: tuple[frozenset[str], ...]  # by language, in the order of languages()
    others: tuple[frozenset[str], ...]  # by language without a file
    known: frozenset[str]  # of all readable languages
    strange: frozenset[str]  # of other languages only


@cache
def _recognised() -> Mapping[str, Any]:
    file = _HERE / "recognised.yaml"
    lists: Mapping[str, Any] = read_yaml(file.read_text(encoding="utf-8"), str(file))
    return lists


@cache
def _common_words() -> _CommonWords:
    lists = {code: words for code, words in _recognised().items() if code != "doubts"}
    readable = tuple(frozenset(each["common"].split()) | _number_words(each) for each in languages())
    others = tuple(
        frozenset(words.split()) for code, words in lists.items() if not (_HERE / f"{code}.yaml").exists()
    )
    known = frozenset[str]().union(*readable)
    return _CommonWords(readable, others, known, frozenset[str]().union(*others) - known)


def _number_words(language: Mapping[str, Any]) -> frozenset[str]:
    numbers = language["numbers"]
    return frozenset([*numbers["upto_19"].split(), *re.split(r"[ |]", numbers["tens"]), *numbers["others"]])


def is_common(word: str) -> bool:
    """Return whether a word in lower case is common in one of these languages."""
    return word in _common_words().known


@cache
def english_words() -> frozenset[str]:
    """Return the most common English words, without numbers. No foreign unit or number begins with one."""
    return frozenset(languages()[0]["common"].split())


def without_quotations(text: str, replacement: str = " ") -> str:
    """Return the text with each quotation replaced."""
    return _QUOTED.sub(replacement, text)


def likely_languages(sentence: str) -> frozenset[int]:
    """Return the indexes in ``languages()`` with most common words in a sentence in lower case."""
    words = _WORD.findall(sentence)
    counts = [sum(word in own for word in words) for own in _common_words().readable]
    return frozenset(place for place, count in enumerate(counts) if count and count == max(counts))


@cache
def _foreign_doubts() -> re.Pattern[str]:
    doubts = _recognised()["doubts"]
    return re.compile(rf"\b(?:{'|'.join(doubts['words'].split())})\b|{'|'.join(doubts['signs'].split())}")


def has_foreign_doubt(low: str) -> bool:
    """Return whether a text in lower case has a word of doubt in any language without a file here."""
    return bool(_foreign_doubts().search(low)) or "?" in low or "？" in low


def is_foreign(text: str) -> bool:
    """Return whether a sentence of the text is in a language without a file here.

    ``text`` has its original case, but no numbers, units and dates, which are the same in many languages.
    Quotations and addresses are ignored.
    """
    if not any(map(str.isalpha, text)):
        return False
    sentences = _SENTENCE.findall(_ADDRESS.sub(" ", _QUOTED.sub(" ", text)))
    return any(map(_is_foreign_sentence, sentences[:_MAX_SENTENCES]))


def _is_foreign_sentence(sentence: str) -> bool:
    words = _WORD.findall(sentence)
    common = _common_words()
    folded = [word.casefold() for word in words]
    best = max(sum(word in own for word in folded) for own in common.readable)
    if not sentence.isascii():
        letters = "".join(words)
        other_script = sum(not (c < "\u0250" or "\u1e00" <= c < "\u1f00") for c in letters)
        if 2 * other_script > len(letters) or (other_script > 1 and not best):
            return True
    plain = [word for word in words if word.islower()]  # without names: "São Paulo"
    strange = sum(word in common.strange or bool(_OTHER_LATIN.search(word)) for word in plain)
    if not strange:
        return not best and len(plain) >= _MIN_UNKNOWN
    return max(strange, *(sum(word in other for word in folded) for other in common.others)) >= best
