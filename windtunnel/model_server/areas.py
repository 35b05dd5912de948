"""A text while arguments are taken out of it: what was used once is not used again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from windtunnel.model_server.lexicon import NOUN_VERBS, VERBS, stem, words
from windtunnel.model_server.names import mask_quoted


class HasPlace(Protocol):
    @property
    def start(self) -> int: ...
    @property
    def end(self) -> int: ...


Found = TypeVar("Found", bound=HasPlace)

_BEFORE = re.compile(
    r"(?:\b(?:starting|beginning|due|dated|scheduled|happening|taking place|all day)\s+)?"
    r"\b(?:on|at|for|in|by|from|to|until|till|of|into|with|around|about|before|after"
    r"|during|and|between|is|@)(?:\s+the)?\s+$",
    re.IGNORECASE,
)
POLITE = re.compile(
    r"^\W*(?:(?:please|kindly|hey|hi|hello|ok|okay|so|and|then|also|just|now|next|finally"
    r"|first|firstly|second|lastly|after that|but|thanks|great|afterwards|"
    r"(?:can|could|would|will) you(?: please)?(?: also)?|i(?:'d| would) (?:like|love)(?: "
    r"(?:you )?to)?|i (?:want|need|wish)(?: (?:you )?to)?|"
    r"i(?:'m| am) (?:looking for|trying to|going to need)|(?:we|you) (?:need|have|should"
    r"|must) to|i wonder|do you know|help me(?: to)?|let's|go ahead and|"
    r"use (?:the|your|a) \w+(?: tool)? to|make sure (?:to|you)|don't forget to|if possible|would you mind|"
    r"use that to|with (?:that|this)|tell me|let me know|show me|give me|i(?:'d| would) like to know|"
    r"(?:the )?(?:other|same) thing)\b[\s,:!]*)+",
    re.IGNORECASE,
)


@dataclass
class Area:
    """One text; ``used`` marks its characters that some argument has taken."""

    text: str
    used: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self.used = bytearray(len(self.text))

    def is_free(self, start: int, end: int) -> bool:
        return not any(self.used[start:end])

    def use(self, start: int, end: int) -> None:
        """Marks the stretch, with a preposition that leads to it."""
        before = _BEFORE.search(self.text[:start])
        start = before.start() if before and self.is_free(before.start(), start) else start
        self.used[start:end] = b"\x01" * (end - start)

    def free(self, spans: Iterable[Found]) -> list[Found]:
        return [span for span in spans if self.is_free(span.start, span.end)]

    def take(self, spans: Iterable[Found], suits: Callable[[Found], bool] = lambda _: True) -> Found | None:
        """The first free span that suits, marked as used; None if there is none."""
        for span in self.free(spans):
            if suits(span):
                self.use(span.start, span.end)
                return span
        return None

    def before(self, span: HasPlace) -> str:
        """The text in front of the span, lower case."""
        return self.text[: span.start].lower()

    def masked(self) -> str:
        """The text with used and quoted stretches blanked out, positions kept."""
        masked = mask_quoted(self.text)
        return "".join(" " if used else char for char, used in zip(masked, self.used, strict=True))

    def rest(self) -> str:
        """What no argument has taken, as one string with its case kept."""
        kept = "".join(" " if used else char for char, used in zip(self.text, self.used, strict=True))
        return re.sub(r"\s+", " ", kept).strip()


def strip_command(text: str) -> str:
    """The text without politeness and its leading verb ("please add a", "look up", "search for")."""
    text = POLITE.sub("", text).strip()
    first = re.match(r"([A-Za-z]+(?:-[a-z]+)?)\b\s*", text)
    if first and (first[1].lower() in VERBS):
        rest = text[first.end() :]
        if rest and not (
            first[1].lower() in NOUN_VERBS
            and re.match(r"(?:with|of|for|from|in|at|on|about|between|by)\b", rest)
        ):
            text = re.sub(r"^(?:up|out|down|for|me|us|about|into|in|off|on)\b\s*", "", rest)
            text = re.sub(r"^(?:for|me|about|that|up)\b\s*", "", text)
    return text.strip()


def strip_articles(text: str) -> str:
    return re.sub(
        r"^(?:(?:a|an|the|my|our|new|another|some|any|also)\s+)+", "", text.strip(), flags=re.IGNORECASE
    )


_LINKING = re.compile(
    r"^(?:for|to|about|called|named|titled|entitled|saying|that says|that|of|on|with "
    r"the (?:title|name|text)|which|whose|regarding|:|-|by|with|containing|from)\b[\s:]*"
    r"|^[:,-]\s*",
    re.IGNORECASE,
)


def strip_noun(text: str, nouns: set[str], keep: tuple[str, ...] = ("with", "from", "by")) -> str:
    """Without the noun for the thing itself and what links it ("a task to buy milk" gives "buy milk")."""
    text = strip_articles(text)
    for count in (3, 2, 1):
        match = re.match(rf"((?:[\w'-]+\s+){{{count}}})(.+)", text + " ") or re.match(
            rf"((?:[\w'-]+\s*){{{count}}})([:,-].*)", text
        )
        if not match:
            continue
        head = [stem(word) for word in words(match[1])]
        link = _LINKING.match(match[2])
        if (
            head
            and head[-1] in nouns
            and link
            and (count == 1 or all(word in nouns for word in head))
            and link.group().strip().lower() not in keep
        ):
            return strip_articles(match[2][link.end() :])
    return text


def trim(text: str) -> str:
    """Without marks and lost prepositions at either end."""
    text = re.sub(r"\s+([,.!?])", r"\1", text)
    text = re.sub(
        r"(?:[\s,;:.!?-]|(?:^|\s)(?:on|at|for|in|by|from|to|with|and|of|into|about|please"
        r"|the|is|as|then)(?=\s*$))+$",
        "",
        text,
        flags=re.IGNORECASE,
    )
    text = re.sub(
        r"^(?:[\s,;:.-]|(?:on|at|for|in|by|to|with|and|about|of|into|that|from)\s)+",
        "",
        text,
        flags=re.IGNORECASE,
    )
    return text.strip()
