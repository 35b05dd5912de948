"""Words: tokens, a light stemmer, and the synonym lexicon (``lexicon.json``) that knows no tool by name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from types import MappingProxyType
from typing import Any

WRITES = ("create", "delete", "send", "update")

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|\d+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_VOWEL = re.compile("[aeiouy]")
_DATA: Mapping[str, Any] = MappingProxyType(
    json.loads(resources.files(__package__).joinpath("lexicon.json").read_text(encoding="utf-8"))
)
STOPWORDS = frozenset(_DATA["stopwords"].split())
NOUN_VERBS = frozenset(_DATA["nouns"].split())
SMALLTALK = tuple(re.compile(pattern, re.IGNORECASE) for pattern in _DATA["smalltalk"])
LANGUAGE_SIGNS: Mapping[str, frozenset[str]] = {
    code: frozenset(words.split()) for code, words in _DATA["language_signs"].items()
}
ABBREVIATIONS: Mapping[str, str] = _DATA["abbreviations"]
UNIT_SUFFIXES: Mapping[str, str] = _DATA["unit_suffixes"]
COUNTRY_MONEY: Mapping[str, str] = _DATA["countries_money"]
_SYNONYMS = tuple(frozenset(listed.split()) for listed in _DATA["enum_synonyms"])


def words(text: str) -> list[str]:
    """The words of the text in lower case; snake_case and camelCase names fall apart."""
    return [word.lower() for word in _WORD.findall(_CAMEL.sub(" ", text).replace("_", " "))]


@lru_cache(maxsize=8192)
def stem(word: str) -> str:
    """A light English stem: the same for the forms of one word, not always a word itself."""
    word = re.sub(r"['’]s$", "", word)
    if word in ("movies", "cookies", "calories", "selfies", "zombies", "ties", "pies"):
        word = word[:-1]
    elif len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 4 and re.search(r"(?:sh|ch|x|ss|zz)es$", word):
        word = word[:-2]
    elif len(word) > 3 and word.endswith("s") and word[-2] not in "sui":
        word = word[:-1]
    for suffix in ("ing", "ed", "ation", "ion", "ator", "or", "er"):
        least = 3 if suffix in ("ing", "ed") else 4
        if word.endswith(suffix) and len(word) - len(suffix) >= least and _VOWEL.search(word[: -len(suffix)]):
            word = word[: -len(suffix)]
            if word[-1] == word[-2] and word[-1] not in "sl" and (suffix != "er" or len(word) > 4):
                word = word[:-1]
            break
    if len(word) > 5 and word.endswith("ate"):
        word = word[:-3]
    elif len(word) > 4 and word.endswith("at"):
        word = word[:-2]
    if len(word) > 3 and word[-1] in "ey":
        word = word[:-1]
    return word


def _by_stem(table: Mapping[str, str]) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for name, listed in table.items():
        for word in listed.split():
            names = found.setdefault(stem(word), [])
            if name not in names:
                names.append(name)
    return {word: tuple(names) for word, names in found.items()}


def _by_word(table: Mapping[str, str]) -> Mapping[str, str]:
    return {word: name for name, listed in reversed(list(table.items())) for word in listed.split()}


_CONCEPTS = _by_stem(_DATA["concepts"])
_ATTRIBUTES = _by_stem(_DATA["attributes"])
_OPERATIONS = _by_stem(_DATA["operations"])
VERBS = frozenset(word for listed in _DATA["operations"].values() for word in listed.split())
LANGUAGES = _by_word(_DATA["languages"])
CURRENCIES = _by_word(_DATA["currencies"])
UNITS = _by_word(_DATA["units"])
LANGUAGE_NAMES: Mapping[str, str] = {code: names.split()[0] for code, names in _DATA["languages"].items()}


def concepts(word: str) -> tuple[str, ...]:
    """The fields of meaning that the word belongs to (``weather`` for ``rainy``)."""
    return _CONCEPTS.get(stem(word), ())


def attributes(word: str) -> tuple[str, ...]:
    """The properties that a question with this word may ask for (``height`` for ``tall``)."""
    return _ATTRIBUTES.get(stem(word), ())


def operations(word: str) -> tuple[str, ...]:
    """What a verb does: ``create``, ``delete``, ``send``, ``update`` or ``read``."""
    return _OPERATIONS.get(stem(word), ())


@lru_cache(maxsize=4096)
def features(text: str) -> Mapping[str, float]:
    """The content of a text: its stems (weight 1) and concepts (0.8, marked ``@``)."""
    found: dict[str, float] = {}
    for word in words(text):
        if word in STOPWORDS or word.isdigit():
            continue
        found[stem(word)] = 1.0
        for concept in concepts(word):
            found.setdefault("@" + concept, 0.8)
    return found


def synonyms(word: str) -> frozenset[str]:
    """The words that mean the same as a value of an enum; the word itself among them."""
    return frozenset({word}).union(*(listed for listed in _SYNONYMS if word in listed))


def wordlist(text: str) -> list[str]:
    """The words of a text in order, split at blanks."""
    return text.split()
