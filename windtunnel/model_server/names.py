"""Quoted text, proper names, e-mail addresses, references and the like, each with its place in a text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from windtunnel.model_server.lexicon import LANGUAGES, STOPWORDS, VERBS, concepts

_QUOTED = re.compile(
    r"\"([^\"]+)\"|“([^”]+)”|«\s*([^»]+?)\s*»|„([^“”]+)[“”]|`([^`]+)`|(?<![\w'])'((?:[^']"
    r"|'(?=\w))+)'(?!\w)|‘((?:[^’]|’(?=\w))+)’(?!\w)"
)
_CAPITAL = r"[A-ZÀ-ÖØ-ÞŁŚŻÇ][\w'’&.-]*(?<![.'’])"
_NAME = re.compile(
    rf"\b{_CAPITAL}(?:\s+(?:(?:de|da|do|dos|del|della|la|le|las|los|of|the|of the|van"
    rf"|von|der|den|di|du|y|in the|for the|vs\.?)\s+)?(?:{_CAPITAL}|\d+(?![\d:.,/%-]*\d"
    rf"|\s*(?:[ap]\.?m|people)\b)))*"
)
_CALENDAR = re.compile(
    r"(?i:mon|tues|wednes|thurs|fri|satur|sun)day'?s?|January|February|March|April|May"
    r"|June|July|August|September|October|"
    r"November|December|Today|Tomorrow|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec"
    r"|AM|PM|I|I['’]\w+|OK|Hi|Hello|Hey|Please|Thanks|Also|Then|Dear|Yes|No|Christmas"
)
EMAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
PHONE = re.compile(r"(?<![\w-])\+?\(?\d[\d ()/-]{5,}\d(?![\w-])")
URL = re.compile(r"https?://\S+?(?=[.,;!?)]*(?:\s|$))|\bwww\.\S+?(?=[.,;!?)]*(?:\s|$))")
HANDLE = re.compile(r"(?<!\w)[@#][A-Za-z][\w-]*")
IDENTIFIER = re.compile(
    r"\b(?=[\w-]*\d)[A-Z]{1,8}(?:[-_][A-Z0-9]+)*[-_]?\d[\w-]*\b|\b(?=[\w-]*\d)(?=[\w-]*[a-z])[a-z]{1,8}[-_]\d[\w-]*\b"
    r"|\b[A-Z]{2,6}(?:-[A-Z0-9]+)+\b|(?<!\w)#\w*\d\w*|\b\d{3,}-\d{3,}[\d-]*\b|\b[0-9a-f]{8}-[0-9a-f-]{13,}\b"
)


@dataclass(frozen=True)
class Span:
    """A stretch of a text and what it stands for."""

    start: int
    end: int
    value: str


@lru_cache(maxsize=2048)
def find_quoted(text: str) -> tuple[Span, ...]:
    """What stands in quotation marks; the span includes the marks."""
    return tuple(
        [
            Span(m.start(), m.end(), next(group for group in m.groups() if group))
            for m in _QUOTED.finditer(text)
        ]
    )


@lru_cache(maxsize=2048)
def mask_quoted(text: str) -> str:
    """The text with quoted stretches replaced by as many underscores."""
    for span in find_quoted(text):
        text = text[: span.start] + "_" * (span.end - span.start) + text[span.end :]
    return text


@lru_cache(maxsize=2048)
def find_names(text: str) -> tuple[Span, ...]:
    """Proper names: capitalised words in a row that are no command, month, weekday or start of a sentence."""
    masked = mask_quoted(text)
    found: list[Span] = []
    for match in _NAME.finditer(masked):
        found += _trimmed(masked, match.start(), match.end())
    return tuple(found)


def _trimmed(text: str, start: int, end: int) -> list[Span]:
    while start < end:
        word = re.match(r"[^\s]+", text[start:end])
        if word is None:
            break
        first = word.group()
        opening = not text[:start].strip() or text[:start].rstrip()[-1] in ".!?:;\n"
        if not (
            _CALENDAR.fullmatch(first) or (opening and _is_common(first)) or first.lower() in ("what", "i")
        ):
            break
        start += word.end() + len(re.match(r"\s*", text[start + word.end() : end]).group())  # type: ignore[union-attr]
    value = re.sub(r"\s+(?:de|of|the|of the)$", "", text[start:end])
    value = re.split(rf"\s+(?=(?:{_CALENDAR.pattern})\b)", value)[0] if value else value
    value = re.sub(r"['’]s$", "", value.rstrip(" .'’"))
    value = re.sub(r"^(?:the|of|de|la|le)\s+", "", value)
    if not value[:1].isupper() or value.lower() in LANGUAGES:
        return []
    start = text.index(value, start)
    return [Span(start, start + len(value), value)]


def _is_common(word: str) -> bool:
    plain = re.sub(r"['’](?:s|re|ll|m|d|ve|t)$", "", word).lower()
    return (
        plain in STOPWORDS
        or plain in VERBS
        or plain.rstrip("s") in VERBS
        or bool(concepts(plain))
        or plain.endswith("ing")
    )


@lru_cache(maxsize=2048)
def find_languages(text: str) -> tuple[Span, ...]:
    """Languages named in the text, each as its ISO code."""
    masked = mask_quoted(text)
    return tuple(
        [
            Span(m.start(), m.end(), LANGUAGES[m.group().lower()])
            for m in re.finditer(r"[^\W\d_]+", masked)
            if m.group().lower() in LANGUAGES
        ]
    )
