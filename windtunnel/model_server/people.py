"""Who and where: recipients and places."""

from __future__ import annotations

import re
from typing import Any

from windtunnel.model_server.areas import Area
from windtunnel.model_server.findings import field_named
from windtunnel.model_server.lexicon import LANGUAGES, STOPWORDS, VERBS, concepts, words
from windtunnel.model_server.names import EMAIL, HANDLE, PHONE, Span, find_names, find_quoted, mask_quoted
from windtunnel.model_server.toolspec import Param
from windtunnel.model_server.typed import MISSING, Scope, find_currencies, pattern_spans

_TOLD = r"(?:tell|message|text|email|e-mail|mail|notify|inform|ping|remind|ask|call|let|contact|alert|sms|dm|invite|warn|send|forward|write(?: to)?|reply to|respond to|phone|show|give|update|thank|wish|congratulate|assure|pay|transfer)"
_RELATED = r"(?:my|our|the|his|her)\s+(?!(?:result|answer|following|message|temperature|weather|value|number|same|translation|list|total|price|forecast|sum|event|calendar|text|current|latest|first|meeting|news|definition|status|average|difference|height|population|time|date)\b)(?:[a-z]+(?:\s(?:team|group|channel|manager|department|office|desk|line|list))?)"
_LOWER_WORDS = r"(?!(?:me|my|the|a|an|it|this|that|them|him|her|us|you|be|say|let|see|get|call|send|do|have|make|buy|check)\b)[a-z][\w'-]+"
_STOP = r"(?=$|[,.?!;:]|\s+(?:today|tomorrow|tonight|on|at|in|and|for|right|now|this|please|with|by|next|like|to|from|using|is|as|that|saying|about|then|currently|over|is|will)\b|\s+\d)"


def recipients(area: Area) -> list[Span]:
    """Those addressed in the text: e-mail addresses, handles, numbers, names after "to" or after the verb."""
    text = area.masked()
    exact = [*pattern_spans(EMAIL, text), *pattern_spans(HANDLE, text)]
    names = find_names(text)
    addressed = [
        s
        for s in names
        if re.search(
            rf"\b(?:to|{_TOLD})\s+(?:(?:a|an|the|my|our)\s+(?:\w+\s+)?)?$", text[: s.start], re.IGNORECASE
        )
    ]
    listed = [
        s
        for s in names
        if s not in addressed
        and any(
            re.fullmatch(r"\s*(?:,|and|&|, and)\s*(?:to )?", text[a.end : s.start])
            for a in [*addressed, *names]
            if a.end <= s.start
        )
    ]
    related = [
        Span(m.start(2), m.end(2), m[2]) for m in re.finditer(rf"\b(to|{_TOLD})\s+({_RELATED})\b", text)
    ]
    lower = [
        Span(m.start(1), m.end(1), m[1])
        for m in re.finditer(
            rf"\bto\s+({_LOWER_WORDS})(?=\s+(?:saying|that|with|about|telling)\b|[.,:;!?]|$)", text
        )
    ]
    verbs = [
        Span(m.start(1), m.end(1), m[1])
        for m in re.finditer(
            rf"\b{_TOLD}\s+({_LOWER_WORDS})(?=\s+(?:that|saying|about|i|know|to)\b|[:,])", text
        )
        if m[1] not in VERBS
    ]
    phones = pattern_spans(PHONE, text)
    return [
        *exact,
        *addressed,
        *[s for s in listed if addressed],
        *related,
        *phones,
        *[s for s in lower if not concepts(s.value)],
        *verbs,
    ]


def recipient(scope: Scope, param: Param, side: str) -> Any:
    """Whom it is for: a name, "my boss" without the "my", an address where the text or a result gives one."""
    wanted = set(words(param.name)) | set(words(param.description))
    for area in scope.texts(param):
        if (
            re.search(
                r"\bmyself\b|\b(?:email|message|text|send|remind) (?:it to )?me\b", area.text, re.IGNORECASE
            )
            and scope.tool.operation == "send"
        ):
            return "me"
        if span := area.take(recipients(area)):
            if (
                wanted & {"email", "address", "mail"}
                and "@" not in span.value
                and (found := field_named([f.data for f in scope.past], {"email", "mail"}))
            ):
                scope.leaned = True
                return found
            return re.sub(r"^(?:my|our|the|his|her)\s+", "", span.value)
        if scope.tool.operation != "send" and (named := area.take(find_names(area.masked()))):
            return named.value
    if (
        param.required
        and (found := field_named([f.data for f in scope.past], {"from", "sender", "email", "name"}))
        and _replies(scope)
    ):
        scope.leaned = True
        return found
    return MISSING


def _replies(scope: Scope) -> bool:
    return bool(
        re.search(
            r"\b(?:reply|respond|answer|back|him|her|them|sender|author)\b",
            scope.areas[0].text,
            re.IGNORECASE,
        )
    )


def places(area: Area) -> list[Span]:
    """Places of the text, those behind a preposition of place first."""
    text = area.masked()
    money = {s.start for s in find_currencies(text)}
    names = [s for s in find_names(text) if s.start not in money and s.value.lower() not in LANGUAGES]
    behind = [
        s
        for s in names
        if re.search(
            r"\b(?:in|at|near|around|for|of|over|outside|from|to|between|and|across|is|about)\s+(?:the\s+|downtown\s+|central\s+)?$",
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
    return [_with_country(text, s) for s in ranked]


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
    pattern = rf"\b(?:in|at|near|around|of|for|to)\s+(?:the\s+)?((?!(?:me|my|it|this|that|the|a|an|us|you|case|order|advance|total|each)\b)[a-z][\w'-]*(?:\s(?!today|tomorrow|tonight|on|at|in|and|for|to|by|with|please|right|now|this|next|from|using|is|as|degrees)[a-z][\w'-]*)?){_STOP}"
    found = [Span(m.start(1), m.end(1), m[1]) for m in re.finditer(pattern, text)]
    return [
        s
        for s in found
        if not set(words(s.value)) & (set(LANGUAGES) | {"celsius", "fahrenheit", "kelvin", "detail"})
    ]


def place(scope: Scope, param: Param, side: str) -> Any:
    for area in scope.texts(param):
        if side and (span := _of_pair(area, side)):
            return span.value
        found = (
            area.take(places(area))
            if not side or not _of_pair(area, "from" if side == "to" else "to")
            else None
        )
        found = found or area.take(_lower_places(area))
        if found is None and param.required and area is not scope.areas[-1]:
            found = area.take(find_quoted(area.text))
        if found is not None:
            return found.value
        if bare := re.match(r"^\W*([a-z]+)(?:'s)?\s+(?:weather|forecast|temperature)\b", area.text):
            if bare[1] not in STOPWORDS and bare[1] not in VERBS:
                return bare[1]
    return MISSING


def _of_pair(area: Area, side: str) -> Span | None:
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
            area.use(span.start, span.end)
            return span
    single = re.search(
        rf"\b{'from|leaving|departing' if side == 'from' else 'to|into|towards?'}\s+(?:the\s+)?{word}", text
    )
    if single and area.is_free(single.start(1), single.end(1)):
        span = Span(single.start(1), single.end(1), single[1].rstrip("."))
        area.use(span.start, span.end)
        return span
    return None
