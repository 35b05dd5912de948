"""Arguments that are references or numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import Any

from windtunnel.model_server.areas import Area
from windtunnel.model_server.dates import find_dates
from windtunnel.model_server.lexicon import attributes, stem, words
from windtunnel.model_server.money import find_currencies, find_units
from windtunnel.model_server.names import EMAIL, IDENTIFIER, PHONE, URL, Span, find_quoted, mask_quoted
from windtunnel.model_server.numbers import Number, find_numbers, plain, tidy
from windtunnel.model_server.scope import MISSING, Scope, matching, pattern_spans
from windtunnel.model_server.times import find_times
from windtunnel.model_server.toolspec import Param

_NUMBERED = (
    r"\b{}s?\s+(?:number\s+|no\.?\s+|id\s+|code\s+|reference\s+|with id\s+)?#?([A-Za-z]{{0,4}}-?\d[\w-]*)"
)
_AT_MOST = (
    r"\b(?:under|below|up to|at most|less than|cheaper than|maximum(?: of)?|max|no more "
    r"than|within|top|first|last|latest|limit(?:ed)?(?: to| of)?|not over|budget of)\s+[$€£]?$"
)
_AT_LEAST = r"\b(?:over|above|at least|more than|minimum(?: of)?|min|starting at|from)\s+[$€£]?$"
_COUNTED = {"limit", "results", "count", "top", "n", "num", "k", "hits"}
_PEOPLE = {
    "people",
    "persons",
    "guests",
    "party",
    "size",
    "seats",
    "passengers",
    "guest",
    "covers",
    "diners",
    "attendees",
    "adults",
    "travellers",
    "travelers",
    "participants",
}
_PRICED = {"price", "cost", "amount", "budget", "sum", "total", "fee", "value"}


def email(scope: Scope, param: Param, side: str) -> Any:
    return matching(scope, param, EMAIL)


def phone(scope: Scope, param: Param, side: str) -> Any:
    return matching(scope, param, PHONE)


def url(scope: Scope, param: Param, side: str) -> Any:
    return matching(scope, param, URL)


def identifier(scope: Scope, param: Param, side: str) -> Any:
    """A reference (ORD-1234, "order 77"); a bare number only where nothing else is left."""
    nouns = [word for word in words(param.name) if word not in ("id", "number", "no", "code", "ref", "key")]
    for area in scope.texts(param):
        text = mask_quoted(area.text)
        spans = [
            Span(m.start(1), m.end(1), m[1])
            for noun in nouns
            for m in re.finditer(_NUMBERED.format(re.escape(noun)), text, re.IGNORECASE)
        ]
        if span := area.take([*spans, *_identifiers(area, scope, nouns)]):
            return _as_kind(span.value, param)
        if span := area.take(_symbols(text, nouns)):
            return span.value
    for area in scope.texts(param) if param.required and not (scope.refers and scope.past) else ():
        bare = [
            n for n in plain_numbers(area, scope.today) if n.value == int(n.value) and not _measured(area, n)
        ]
        if number := area.take(bare):
            return int(number.value) if param.is_number else area.text[number.start : number.end]
        if quoted := area.take(find_quoted(area.text)):
            return quoted.value
    return MISSING


def _measured(area: Area, number: Number) -> bool:
    """Whether the number is an amount of money, a measure or a percentage."""
    after = area.text[number.end :]
    named = [*find_currencies(area.text), *find_units(area.text)]
    beside = any(0 <= span.start - number.end <= 1 or 0 <= number.start - span.end <= 1 for span in named)
    return beside or bool(re.match(r"\s*(?:%|percent)", after))


def _identifiers(area: Area, scope: Scope, nouns: Sequence[str]) -> list[Span]:
    text = area.text
    dated = find_dates(mask_quoted(text), scope.today)
    spans = [
        s
        for s in pattern_spans(IDENTIFIER, text)
        if not any(d.start < s.end and s.start < d.end for d in dated)
    ]
    spans = [s for s in spans if not any(e.start() <= s.start < e.end() for e in EMAIL.finditer(text))]
    wanted = {stem(noun) for noun in nouns}
    return sorted(
        spans,
        key=lambda s: (
            not wanted & {stem(w) for w in words(text[max(0, s.start - 24) : s.start])}
            and not any(s.value.lower().startswith(n[:3]) for n in nouns)
        ),
    )


def _symbols(text: str, nouns: Sequence[str]) -> list[Span]:
    if not {"symbol", "ticker", "stock", "airport", "iata", "origin", "destination"} & set(nouns):
        return []
    return [
        s
        for s in pattern_spans(re.compile(r"\b[A-Z]{2,5}\b"), text)
        if s.value not in ("USD", "EUR", "GBP", "I")
    ]


def _as_kind(text: str, param: Param) -> Any:
    digits = re.sub(r"\D", "", text)
    if param.kind == "integer" and digits:
        return int(digits)
    return text.lstrip("#") if text.startswith("#") and "#" not in param.description else text


def plain_numbers(area: Area, today: date) -> list[Number]:
    """Numbers that are no part of a date, time, duration, reference or quoted text."""
    text = mask_quoted(area.text)
    busy: list[Any] = [
        *find_dates(text, today),
        *(t for t in find_times(text) if t.sure),
        *pattern_spans(IDENTIFIER, text),
        *pattern_spans(EMAIL, text),
    ]
    return [n for n in find_numbers(text) if not any(b.start < n.end and n.start < b.end for b in busy)]


def amount(scope: Scope, param: Param, side: str) -> Any:
    """The number that stands where the parameter's name asks for one; a required one takes any that is
    left."""
    for area in scope.texts(param):
        numbers = area.free(plain_numbers(area, scope.today))
        chosen = _meant(scope, area, param, numbers)
        if not chosen and param.required:
            others = [
                p
                for p in scope.tool.params
                if p.is_number and p is not param and p.name not in scope.assigned
            ]
            theirs = [n for other in others for n in _meant(scope, area, other, numbers)]
            chosen = [n for n in numbers if n not in theirs] or numbers
        chosen = chosen[:1]
        if chosen:
            area.use(chosen[0].start, _money_end(area.text, chosen[0].end))
            value = tidy(chosen[0].value)
            return value if param.is_number else plain(value)
    return MISSING if scope.widely else _earlier_number(scope, param)


def _meant(scope: Scope, area: Area, param: Param, numbers: Sequence[Number]) -> list[Number]:
    name = set(words(param.name))
    if name & _COUNTED or name == {"max"}:
        own = scope.nouns() | {stem(word) for word in ("result", "item", "hit", "entry", "option")}
        limits = [n for n in numbers if re.search(_AT_MOST, area.before(n))]
        followed = [n for n in numbers if own & {stem(word) for word in words(area.text[n.end :])[:2]}]
        return limits or followed
    if name & {"max", "maximum", "highest", "limit", "upto"}:
        return [n for n in numbers if re.search(_AT_MOST, area.before(n))]
    if name & {"min", "minimum", "lowest", "least"}:
        return [n for n in numbers if re.search(_AT_LEAST, area.before(n))]
    if name & _PEOPLE:
        people = r"\s+(?:people|persons|guests|adults|of us|passengers|seats|diners|friends)"
        counted = [n for n in numbers if re.match(people, area.text[n.end :])]
        return counted or [n for n in numbers if re.search(r"\b(?:for|of)\s+$", area.before(n))]
    wanted = {stem(word) for word in name} | {sense for word in name for sense in attributes(word)}
    near = [n for n in numbers if wanted & _around(area.text, n)]
    priced = [n for n in numbers if _measured(area, n)] if name & _PRICED else []
    return priced or near


def _around(text: str, number: Number) -> set[str]:
    near = (
        words(text[max(0, number.start - 22) : number.start])[-3:]
        + words(text[number.end : number.end + 18])[:2]
    )
    found = {stem(w) for w in near} | {a for w in near for a in attributes(w)}
    return found | ({"percent", "level"} if text[number.end : number.end + 1] == "%" else set())


def _money_end(text: str, end: int) -> int:
    following = [span.end for span in find_currencies(text) if 0 <= span.start - end <= 1]
    if following:
        return following[0]
    match = re.match(r"\s*(?:%|[$€£¥]|percent\b)", text[end:])
    return end + match.end() if match else end


def _earlier_number(scope: Scope, param: Param) -> Any:
    if not param.required:
        return MISSING
    for finding in reversed(scope.past):
        for value in finding.values:
            if value.is_number:
                scope.leaned = True
                return value.value if param.is_number else str(value.value)
    return MISSING


def year(scope: Scope, param: Param, side: str) -> Any:
    for area in scope.texts(param):
        if span := area.take(
            pattern_spans(re.compile(r"\b(?:1[89]|20|21)\d\d\b(?![-/])"), mask_quoted(area.text))
        ):
            return int(span.value) if param.is_number else span.value
    return MISSING
