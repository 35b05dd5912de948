"""The same task in other words: prompts with typos, other case, padding, another order, or paraphrased. Pure.

A perturbed prompt keeps the key of its original, so the draws of its episodes are the original's, and its
oracle. What the task depends on stays: names, numbers, quoted texts, code, addresses, and all words of
``expect``. The draw of a perturbation is keyed by seed, name and episode key, so each repetition has its own.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

from wirefault.wiring.prompts import Prompt

Perturbation = Literal["typos", "case", "padding", "order", "paraphrases"]
PERTURBATIONS: tuple[Perturbation, ...] = get_args(Perturbation)

_TYPO_SHARE = 0.2
_MIN_LETTERS = 3
# quoted texts, code and objects; whatever has a blank inside and is a fact of the task
_FACTS = re.compile(
    r"```.*?```|`[^`]*`|\"[^\"]*\"|“[^”]*”|«[^»]*»|(?<!\w)'[^']*'(?!\w)|\{.*?\}|<[^>]*>|\S+", re.DOTALL
)
# a word without a figure or a sign, in its punctuation
_WORD = re.compile(r"([(¿¡]*)([^\W\d_]+(?:['’-][^\W\d_]+)*)([.,;:!?)…]*)")
_WORDS = re.compile(r"[^\W\d_]+")
_SENTENCE_END = re.compile(
    r"(?:(?<=[.!?…])|(?<=[.!?…][\"”»')]))\s+(?=[^\W_a-zß-ÿ]|[\"“«'(¿¡])|(?<=[。！？])\s*(?=\S)"
)
_ABBREVIATION = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|No|Nr|vs|etc|approx|e\.g|i\.e)|\b[^\W\d_])\.$")
_LIST_ITEM = re.compile(r"(\s*(?:[-*•]|\d+[.)])\s+)(.*\S)\s*")
_OPENINGS = (
    "Hello!",
    "Hi there, I hope you are doing well.",
    "Good morning! I have been busy all week and did not get to this.",
    "Sorry to bother you, I know that you have a lot to do.",
)
_CLOSINGS = (
    "Thank you!",
    "Thanks a lot in advance.",
    "That is all, there is no hurry.",
    "Thanks, and have a nice day.",
)


def perturbed(prompt: Prompt, name: Perturbation, seed: int) -> Prompt | None:
    """Return the prompt under the same key with the perturbation, which it names in its ``metadata``.

    None if the perturbation leaves it as it is: a single sentence has no other order.
    """
    chance = random.Random(f"{name} {seed} {prompt.key}")
    turns = prompt.turns or (prompt.text,)
    if name == "paraphrases":
        changed = chance.choice(prompt.paraphrases) if prompt.paraphrases else turns
    else:
        protected = frozenset(_words_in(prompt.expect))
        changed = tuple(_TEXTS[name](turn, chance, protected) for turn in turns)
    if changed == turns:
        return None
    return replace(
        prompt,
        text="\n".join(changed),
        turns=changed if prompt.turns else (),
        metadata={**prompt.metadata, "perturbation": name},
    )


def _words_in(value: Any) -> Iterator[str]:
    """Yield the words of all texts in an oracle, in small letters."""
    if isinstance(value, str):
        yield from (word.casefold() for word in _WORDS.findall(value))
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from _words_in(part)
    elif isinstance(value, Sequence):
        for part in value:
            yield from _words_in(part)


def _with_words(text: str, protected: frozenset[str], change: Callable[[str], str]) -> str:
    """Change the words in small letters that the oracle does not name."""

    def changed(token: re.Match[str]) -> str:
        word = _WORD.fullmatch(token[0])
        if word is None or not word[2].islower() or not protected.isdisjoint(_words_in(word[2])):
            return token[0]
        return f"{word[1]}{change(word[2])}{word[3]}"

    return _FACTS.sub(changed, text)


def _typos(text: str, chance: random.Random, protected: frozenset[str]) -> str:
    """A fifth of the words of three letters and more, at least one, have a slip of the keyboard."""
    words: list[str] = []

    def collect(word: str) -> str:
        words.append(word)
        return word

    _with_words(text, protected, collect)
    places = [place for place, word in enumerate(words) if len(word) >= _MIN_LETTERS and len(set(word)) > 1]
    if not places:
        return text
    drawn = {place for place in places if chance.random() < _TYPO_SHARE} or {chance.choice(places)}
    number = iter(range(len(words)))
    return _with_words(text, protected, lambda word: _slip(word, chance) if next(number) in drawn else word)


def _slip(word: str, chance: random.Random) -> str:
    """Swap two letters, leave one out, or type one twice, but never the first."""
    swaps = [at for at in range(1, len(word) - 1) if word[at] != word[at + 1]]
    kinds = ["drop", "double", *(["swap"] if swaps else [])]
    kind = chance.choice(kinds)
    at = chance.choice(swaps) if kind == "swap" else chance.randrange(1, len(word))
    if kind == "swap":
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return word[:at] + word[at + 1 :] if kind == "drop" else word[:at] + word[at] + word[at:]


def _case(text: str, chance: random.Random, protected: frozenset[str]) -> str:
    """All words in capitals, with a capital, or a mix of both."""
    style = chance.choice(("upper", "title", "mixed"))

    def change(word: str) -> str:
        is_upper = chance.random() < 0.5 if style == "mixed" else style == "upper"
        return word.upper() if is_upper else word[:1].upper() + word[1:]

    return _with_words(text, protected, change)


def _padding(text: str, chance: random.Random, _: frozenset[str]) -> str:
    """Polite sentences around the text, which ask for nothing."""
    opening, closing = chance.choice(_OPENINGS), chance.choice(_CLOSINGS)
    space = chance.choice(("\n\n", "\n", " "))
    return f"{opening}{space}{text}{space}{closing}"


def _order(text: str, chance: random.Random, _: frozenset[str]) -> str:
    """The items of a list, else the sentences, in another order."""
    lines = text.splitlines()
    items = [(at, match) for at, line in enumerate(lines) if (match := _LIST_ITEM.fullmatch(line))]
    if len(items) > 1:
        shuffled = _shuffled([match[2] for _, match in items], chance)
        for (at, match), content in zip(items, shuffled, strict=True):
            lines[at] = match[1] + content  # the numbers stay in their order
        return "\n".join(lines)
    sentences, gaps = _sentences(text)
    shuffled = _shuffled(sentences, chance)
    return "".join(map("".join, zip(shuffled, [*gaps, ""], strict=True)))


def _sentences(text: str) -> tuple[list[str], list[str]]:
    """The sentences, and the space after each but the last. Quoted texts and abbreviations do not end one."""
    facts = [match.span() for match in _FACTS.finditer(text)]
    sentences, gaps, start = [], [], 0
    for gap in _SENTENCE_END.finditer(text):
        inside = any(begin < gap.start() < end for begin, end in facts if " " in text[begin:end])
        if not inside and not _ABBREVIATION.search(text[start : gap.start()]):
            sentences.append(text[start : gap.start()])
            gaps.append(gap[0])
            start = gap.end()
    return [*sentences, text[start:]], gaps


def _shuffled(parts: Sequence[str], chance: random.Random) -> list[str]:
    """The parts in another order, if there is one."""
    shuffled = list(parts)
    if len(set(parts)) > 1:
        while shuffled == list(parts):
            chance.shuffle(shuffled)
    return shuffled


_TEXTS: Mapping[Perturbation, Callable[[str, random.Random, frozenset[str]], str]] = {
    "typos": _typos,
    "case": _case,
    "padding": _padding,
    "order": _order,
}
