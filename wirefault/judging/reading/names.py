"""Compare names with and without accents, or in a transliteration: ``São Paulo`` and ``Sao Paulo``. Pure."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal

from wirefault.judging.reading.text import folded

Likeness = Literal["same", "perhaps", "other"]

# letters that Unicode does not decompose, as people type them on a foreign keyboard
_PLAIN = {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i"}
_DIGRAPHS = (
    {"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe"},
    {
        "š": "sh",
        "ş": "sh",
        "ș": "sh",
        "č": "ch",
        "ç": "ch",
        "ć": "ch",
        "ž": "zh",
        "đ": "dj",
        "ð": "dh",
        "ñ": "ny",
    },
)
_SPELLINGS = tuple(str.maketrans({**_PLAIN, **digraphs}) for digraphs in ({}, *_DIGRAPHS))
_DIGRAPH_OF_A_VOWEL = re.compile(r"(?<=[aou])e|(?<=a)a")
_UMLAUT = re.compile("[äöü]")
_WORDS = re.compile(r"[^\W\d_]+")
_MIN_SENTENCE = 3  # words
_LAST_LATIN = "\u024f"
_VIETNAMESE = range(0x1E00, 0x1F00)


def spellings(text: str) -> tuple[str, ...]:
    """Return the folded text's spellings without accents: with plain letters first, then with digraphs."""
    low = folded(text)
    if low.isascii():
        return (low,)
    composed = unicodedata.normalize("NFC", low)
    return tuple(dict.fromkeys(_without_marks(composed.translate(each)) for each in _SPELLINGS))


def _without_marks(text: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFD", text) if not unicodedata.combining(c))


def likeness(name: str, other: str) -> Likeness:
    """Compare a text with a name. "perhaps" means one of these:

    - both have accents, but different ones;
    - only the text has an umlaut, so it may be another word (Apfel, Äpfel);
    - only a digraph differs (Zurich, Zuerich);
    - ``name`` is not a name.
    """
    folded_name, folded_other = folded(name), folded(other)
    if folded_name == folded_other:
        return "same"
    if set(spellings(name)) & set(spellings(other)):
        if _is_sentence(name):
            return "other"
        is_same = folded_other.isascii() or (folded_name.isascii() and not _UMLAUT.search(folded_other))
        return "same" if is_same and is_name(name) else "perhaps"
    return "perhaps" if is_name(name) and _loose(name) == _loose(other) else "other"


def _loose(text: str) -> str:
    """Return the name without digraphs, spaces and signs: Xi'an is Xian."""
    return "".join(filter(str.isalnum, _DIGRAPH_OF_A_VOWEL.sub("", spellings(text)[0])))


def _is_sentence(text: str) -> bool:
    """Return whether a phrase is more than a name, so that an accent may change a word: è, e."""
    return len(_WORDS.findall(text)) >= _MIN_SENTENCE and not is_name(text)


def is_name(text: str) -> bool:
    """Return whether a phrase looks like a name, in which an accent does not change the meaning."""
    words = _WORDS.findall(text)
    long = [word for word in words if len(word) > 3] or words[:1]
    return bool(long) and not any(word[0].islower() for word in long)


def in_other_scripts(text: str, other: str) -> bool:
    """Return whether all letters of one text are Latin and all of the other are not: Москва, Moskva."""
    scripts = [{_is_latin(c) for c in each if c.isalpha()} for each in (text, other)]
    return len(scripts[0]) == len(scripts[1]) == 1 and scripts[0] != scripts[1]


def _is_latin(character: str) -> bool:
    return character <= _LAST_LATIN or ord(character) in _VIETNAMESE
