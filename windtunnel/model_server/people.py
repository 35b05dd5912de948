"""Who: those that a message or an action is for."""

from __future__ import annotations

import re
from typing import Any

from windtunnel.model_server.areas import Area
from windtunnel.model_server.findings import field_named
from windtunnel.model_server.lexicon import VERBS, concepts, words
from windtunnel.model_server.names import EMAIL, HANDLE, PHONE, Span, find_names
from windtunnel.model_server.scope import MISSING, Scope, pattern_spans
from windtunnel.model_server.toolspec import Param

_TOLD = (
    r"(?:tell|message|text|email|e-mail|mail|notify|inform|ping|remind|ask|call|let|contact"
    r"|alert|sms|dm|invite|warn|send|forward|write(?: to)?|reply to|respond to|phone"
    r"|show|give|update|thank|wish|congratulate|assure|pay|transfer|leave|hand|drop|wire"
    r"|lend|owe|refund)"
)

_RELATED = (
    r"(?:my|our|the|his|her)\s+(?!(?:result|answer|following|message|temperature|weather"
    r"|value|number|same|translation|list|total|price|forecast|sum|event|calendar|text"
    r"|current|latest|first|meeting|news|definition|status|average|difference|height"
    r"|population|time|date)\b)(?:[a-z]+(?:\s(?:team|group|channel|manager|department"
    r"|office|desk|line|list))?)"
)

_LOWER_WORDS = (
    r"(?!(?:me|my|the|a|an|it|this|that|them|him|her|us|you|be|say|let|see|get|call|send"
    r"|do|have|make|buy|check)\b)[a-z][\w'-]+"
)

_PRONOUN = re.compile(rf"\b(?:to|{_TOLD})\s+(?:her|him|them)\b", re.IGNORECASE)

_TO_SELF = re.compile(r"\bmyself\b|\b(?:email|message|text|send) (?:it to )?me\b", re.IGNORECASE)


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
    for area in scope.texts(param):
        if scope.tool.operation == "send" and _TO_SELF.search(area.text):
            return "me"
        if scope.widely and (name := _meant_by_pronoun(scope, area)):
            return name
        if span := area.take(recipients(area)):
            return _address_of(scope, param, re.sub(r"^(?:my|our|the|his|her)\s+", "", span.value))
        if scope.tool.operation != "send" and (named := area.take(find_names(area.masked()))):
            return named.value
    sender = field_named([f.data for f in scope.past], {"from", "sender", "email", "name"})
    if param.required and sender and _replies(scope):
        scope.leaned = True
        return sender
    return MISSING


def _address_of(scope: Scope, param: Param, name: str) -> str:
    """The person's address out of an earlier result, where the parameter wants one."""
    wanted = set(words(param.name)) | set(words(param.description))
    if "@" in name or not wanted & {"email", "address", "mail"}:
        return name
    found = field_named([f.data for f in scope.past], {"email", "mail"})
    scope.leaned = scope.leaned or found is not None
    return name if found is None else str(found)


def _meant_by_pronoun(scope: Scope, area: Area) -> str | None:
    """The last person named before "text her", "message him"."""
    pronoun = _PRONOUN.search(scope.areas[0].text)
    if not pronoun:
        return None
    names = find_names(area.text)
    before = [s for s in names if s.start < area.text.find(pronoun.group())] or names
    return before[-1].value if before else None


def _replies(scope: Scope) -> bool:
    return bool(
        re.search(
            r"\b(?:reply|respond|answer|back|him|her|them|sender|author)\b",
            scope.areas[0].text,
            re.IGNORECASE,
        )
    )
