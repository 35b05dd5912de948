"""Arguments that are currencies or units of measure, alone or in pairs."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from windtunnel.model_server.lexicon import COUNTRY_MONEY, CURRENCIES, UNITS
from windtunnel.model_server.names import Span, mask_quoted
from windtunnel.model_server.scope import MISSING, Scope
from windtunnel.model_server.toolspec import Param


def _paired(scope: Scope, param: Param, side: str, spans_in: Any) -> str | None:
    """One of a pair like "100 dollars to euros": what stands by the number is the first of it."""
    for area in scope.texts(param):
        spans: list[Span] = area.free(spans_in(area.text))
        to = [
            s
            for s in spans
            if re.search(r"\b(?:to|into|in|as|many|much)\s+(?:the\s+)?(?:\w+\s+)?$", area.before(s))
            and not re.search(r"\d\s*$", area.before(s))
        ]
        beside = [
            s
            for s in spans
            if re.search(rf"(?:\d|\b(?:{_NUMBER_WORD}))[\s-]*$", area.before(s))
            or re.match(r"\s?\d", area.text[s.end :])
            or re.search(r"\bfrom\s+$", area.before(s))
        ]
        if side == "to":
            chosen = [s for s in to if s not in beside] or [s for s in spans if s not in beside]
        else:
            chosen = beside or [s for s in spans if s not in to] or ([] if side else spans)
        if chosen:
            area.use(chosen[0].start, chosen[0].end)
            return chosen[0].value
    return None


_NUMBER_WORD = (
    "one|two|three|four|five|six|seven|eight|nine|ten|twenty|thirty|fifty|hundred|thousand|million|an?"
)


@lru_cache(maxsize=2048)
def find_currencies(text: str) -> tuple[Span, ...]:
    """Currencies of the text (names, codes, signs), each as its ISO code."""
    masked = mask_quoted(text)
    found = []
    for match in re.finditer(r"(?:([A-Za-z]+(?: Kong| Zealand)?) )?\b([A-Za-z]{3,9})\b|[$€£¥₹]", masked):
        word = (match[2] or match.group()).lower()
        if word in CURRENCIES and (word != "try" or "TRY" in match.group()):
            country = (match[1] or "").lower()
            start = match.start() if country in COUNTRY_MONEY or not match[2] else match.start(2)
            found.append(Span(start, match.end(), COUNTRY_MONEY.get(country, CURRENCIES[word])))
        elif match[1] and match[1].lower() in CURRENCIES:
            found.append(Span(match.start(1), match.end(1), CURRENCIES[match[1].lower()]))
    return tuple(found)


@lru_cache(maxsize=2048)
def find_units(text: str) -> tuple[Span, ...]:
    """Units of measure named in the text."""
    masked = mask_quoted(text)
    spans = [
        Span(m.start(), m.end(), m.group())
        for m in re.finditer(r"km/h|m/s|(?<=\d)[a-zA-Z]{1,3}\b|°[CF]|\b[A-Za-z]{2,}\b", masked)
    ]
    spans += [
        Span(m.start(1), m.end(1), m[1]) for m in re.finditer(r"(?:\d\s|\bto |\bin )([mgltCFK])\b", masked)
    ]
    return tuple(
        sorted(
            (s for s in spans if s.value.lower() in UNITS and s.value not in ("in", "I")),
            key=lambda s: s.start,
        )
    )


def currency(scope: Scope, param: Param, side: str) -> Any:
    code = _paired(scope, param, side, find_currencies)
    if code is None:
        return MISSING
    return next((value for value in param.enum if str(value).upper() == code), code)


def unit(scope: Scope, param: Param, side: str) -> Any:
    said = _paired(scope, param, side, find_units)
    if said is None:
        return MISSING
    name = UNITS[said.lower()]
    for value in param.enum:
        if UNITS.get(str(value).lower()) == name:
            return value
    shown = [
        w
        for w in re.findall(r"[A-Za-z°/]+", param.description)
        if w.lower() in UNITS and w.lower() not in ("in", "as", "a")
    ]
    short = shown and all(len(word) <= 3 for word in shown)
    if short:
        return {
            "kilometers": "km",
            "miles": "mi",
            "kilograms": "kg",
            "pounds": "lb",
            "meters": "m",
            "feet": "ft",
            "celsius": "C",
            "fahrenheit": "F",
            "grams": "g",
            "ounces": "oz",
            "inches": "in",
            "centimeters": "cm",
            "liters": "l",
            "gallons": "gal",
        }.get(name, said)
    return said
