"""Where: places of a text."""

from __future__ import annotations

import re
from typing import Any

from windtunnel.model_server.areas import Area
from windtunnel.model_server.lexicon import LANGUAGES, STOPWORDS, VERBS, stem, words
from windtunnel.model_server.money import find_currencies
from windtunnel.model_server.names import Span, find_names, find_quoted, mask_quoted
from windtunnel.model_server.people import recipients
from windtunnel.model_server.scope import MISSING, Scope, pattern_spans
from windtunnel.model_server.toolspec import Param

_STOP = (
    r"(?=$|[,.?!;:]|\s+(?:today|tomorrow|tonight|on|at|in|and|for|right|now|this|please"
    r"|with|by|next|like|to|from|using|is|as|that|saying|about|then|currently|over|is"
    r"|will)\b|\s+\d)"
)

_ROOMS = (
    r"\bthe ((?:[a-z]*room|living room|kitchen|hall(?:way)?|office|garage|garden|basement"
    r"|attic|cellar|terrace|balcony|study))\b"
)

_STREET = re.compile(r"\b\d+[A-Za-z]?\s+[A-Z][\w'-]+(?:\s[A-Z][\w'-]*)*")


def places(area: Area, anywhere: bool = True) -> list[Span]:
    """Places of the text, those behind a preposition of place first, or only those."""
    text = area.masked()
    money = {s.start for s in find_currencies(text)}
    names = [s for s in find_names(text) if s.start not in money and s.value.lower() not in LANGUAGES]
    behind = [
        s
        for s in names
        if re.search(
            r"\b(?:in|at|near|around|for|of|over|outside|from|to|between|and|across|is|about)\s+(?:the\s+"
            r"|downtown\s+|central\s+)?$",
            text[: s.start],
            re.IGNORECASE,
        )
    ]
    addressed = {s.start for s in recipients(area)}
    others = [s for s in names if s not in behind]
    ranked = (
        [s for s in behind if s.start not in addressed]
        + [s for s in others if s.start not in addressed]
        + names
    )
    return [_with_country(text, s) for s in (ranked if anywhere else behind)]


def _with_country(text: str, span: Span) -> Span:
    """ "Paris, France" as one place, unless it is a list."""
    match = re.match(r",\s+([A-Z][a-zA-Z]+(?: [A-Z][a-z]+)?)(?!\s*(?:,|and\b))", text[span.end :])
    if (
        not match
        or re.match(r".*?,?\s+and\s+(?:in\s+)?[A-Z]", text[span.end + match.end() :])
        or match[1].lower() in STOPWORDS
        or match[1].lower() in VERBS
    ):
        return span
    return Span(span.start, span.end + match.end(), text[span.start : span.end + match.end()])


def _lower_places(area: Area) -> list[Span]:
    text = area.masked()
    pattern = (
        rf"\b(?:in|at|near|around|of|for|to)\s+(?:the\s+)?((?!(?:me|my|it|this|that|the|a"
        rf"|an|us|you|case|order|advance|total|each)\b)[a-z][\w'-]*(?:\s(?!today|tomorrow"
        rf"|tonight|on|at|in|and|for|to|by|with|please|right|now|this|next|from|using|is|as"
        rf"|degrees)[a-z][\w'-]*)?){_STOP}"
    )
    found = [Span(m.start(1), m.end(1), m[1]) for m in re.finditer(pattern, text)]
    found += [Span(m.start(1), m.end(1), m[1]) for m in re.finditer(_ROOMS, text, re.IGNORECASE)]
    return [
        s
        for s in found
        if not set(words(s.value)) & (set(LANGUAGES) | {"celsius", "fahrenheit", "kelvin", "detail"})
    ]


def place(scope: Scope, param: Param, side: str) -> Any:
    """Where: a name behind a preposition, any other name, or a place in small letters."""
    numbered = {"address", "street"} & set(words(param.name))

    def suits(span: Span) -> bool:
        return not numbered or bool(re.search(r"\d", span.value))

    for area in scope.texts(param):
        if side and (span := _of_pair(area, side)):
            return span.value
        if numbered and (street := area.take(pattern_spans(_STREET, area.masked()))):
            return street.value
        elsewhere = side and _of_pair(area, "from" if side == "to" else "to", use=False)
        found = None if elsewhere else area.take(places(area, param.required), suits)
        found = found or area.take(_lower_places(area), suits)
        if found is None and param.required:
            found = _by_noun(scope, area) or area.take(find_quoted(area.text))
        if found is not None:
            return found.value
    return MISSING


def _by_noun(scope: Scope, area: Area) -> Span | None:
    """What stands before the noun of the thing: "bedroom" of "the bedroom lights"."""
    text = area.masked()
    for match in re.finditer(r"\b([a-z]+(?:\s(?:room|floor))?)\s+([a-z]+)\b", text):
        head = match[1].split()[0]
        if (
            stem(match[2]) in scope.nouns()
            and head not in STOPWORDS | VERBS
            and stem(head) not in scope.nouns()
        ):
            area.use(match.start(1), match.end(1))
            return Span(match.start(1), match.end(1), match[1])
    return None


def _of_pair(area: Area, side: str, use: bool = True) -> Span | None:
    """One end of "from X to Y" or "between X and Y"."""
    text = mask_quoted(area.text)
    word = r"([A-Z][\w'’.-]*(?:\s[A-Z][\w'’.-]*)*|[A-Z]{3})"
    patterns = (
        rf"\bfrom\s+(?:the\s+)?{word}.{{0,40}}?\b(?:to|into)\s+(?:the\s+)?{word}",
        rf"\bbetween\s+(?:the\s+)?{word}\s+and\s+(?:the\s+)?{word}",
        rf"\b{word}\s*(?:to|->|→)\s*{word}",
    )
    for pattern in patterns:
        if match := re.search(pattern, text):
            group = 1 if side == "from" else 2
            span = Span(match.start(group), match.end(group), match[group].rstrip("."))
            return _used(area, span, use)
    before = "from|leaving|departing" if side == "from" else "to|into|towards?"
    single = re.search(rf"\b(?:{before})\s+(?:the\s+)?{word}", text)
    if single and area.is_free(single.start(1), single.end(1)):
        span = Span(single.start(1), single.end(1), single[1].rstrip("."))
        return _used(area, span, use)
    return None


def _used(area: Area, span: Span, use: bool) -> Span:
    if use:
        area.use(span.start, span.end)
    return span
