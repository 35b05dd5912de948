"""What the scripted model knows of English: ``words.yaml``, stems, and the words of names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from windtunnel.core.strict_yaml import read_yaml

_FILE = Path(__file__).with_name("words.yaml")
WORDS: Mapping[str, Any] = read_yaml(_FILE.read_text(encoding="utf-8"), str(_FILE))


def expanded(pattern: str) -> str:
    """The pattern with those in the place of their names that it has in braces."""
    return re.sub(r"\{([a-z_]+)\}", lambda name: expanded(WORDS["patterns"][name[1]]), pattern)


PATTERNS: Mapping[str, re.Pattern[str]] = {
    **{name: re.compile(expanded(pattern), re.IGNORECASE) for name, pattern in WORDS["patterns"].items()},
    **{
        name: re.compile(rf"\b(?:{'|'.join(words)})\b", re.IGNORECASE)
        for name, words in WORDS["any_of"].items()
    },
}


def listed(name: str) -> frozenset[str]:
    """The words under that name in ``words.yaml``."""
    return frozenset(WORDS[name].split())


def stem(word: str) -> str:
    """A word without the endings in which a tool's name and a sentence differ."""
    word = word.casefold().replace("’", "'").removesuffix("'s")
    for ending, least in (("ies", 5), ("ing", 6), ("ed", 5), ("es", 5), ("s", 4)):
        if word.endswith(ending) and len(word) >= least and not word.endswith("ss"):
            word = word[: -len(ending)] + ("y" if ending == "ies" else "")
            break
    return word.removesuffix("e") if len(word) > 3 else word


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


_KINDS: dict[str, str] = {
    stem(verb): kind for kind, verbs in WORDS["verbs"].items() for verb in verbs.split()
}


def verb_class(word: str) -> str:
    """``read``, ``create``, ``delete``, ``send`` or ``change``; empty for what is no verb known here."""
    return _KINDS.get(stem(word), "")
