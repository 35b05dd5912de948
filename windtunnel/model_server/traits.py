"""The kinds of arguments that a text offers, and how well a tool's parameters suit them."""

from __future__ import annotations

import re
from datetime import date
from functools import lru_cache

from windtunnel.model_server.areas import POLITE
from windtunnel.model_server.dates import find_dates
from windtunnel.model_server.expressions import find_expressions
from windtunnel.model_server.lexicon import words
from windtunnel.model_server.money import find_currencies, find_units
from windtunnel.model_server.names import EMAIL, find_languages, find_quoted, mask_quoted
from windtunnel.model_server.names import IDENTIFIER as REFERENCE_NUMBER
from windtunnel.model_server.operations import is_sum
from windtunnel.model_server.roles import role_of
from windtunnel.model_server.times import find_durations, find_times
from windtunnel.model_server.toolspec import Tool

_TOLD = re.compile(
    r"\b(saying|that says|that reads)\b.*"
    r"|\b(tell|let|inform|notify|remind|ask|message|text|email|post)\b((?:\s+in)?\s+[\w.@#-]+(?:\s+know)?\s+that\b).*",
    re.IGNORECASE | re.DOTALL,
)


def untold(text: str) -> str:
    """Without the words of a message."""
    return _TOLD.sub(lambda match: match[1] or match[2], text)


@lru_cache(maxsize=2048)
def traits_of(text: str, today: date) -> frozenset[str]:
    """The kinds of arguments that the text offers."""
    masked = mask_quoted(text)
    offered = {
        "email": bool(EMAIL.search(text)),
        "id": bool(REFERENCE_NUMBER.search(masked)),
        "date": bool(find_dates(masked, today)),
        "time": bool(find_times(masked)),
        "duration": bool(find_durations(masked)),
        "language": bool(find_languages(text)),
        "unit": len(find_units(text)) > 1
        or bool(find_units(text) and re.search(r"\bconvert\b|\bhow many\b|\bin\b", text)),
        "currency": len(find_currencies(text)) > 1,
        "expression": is_sum(POLITE.sub("", text))
        or any(e.references == 0 or e.end - e.start > 8 for e in find_expressions(masked)),
        "place": bool(re.search(r"\b(?:in|at|near|for|to|from|of)\s+[A-Z]", masked)),
        "route": bool(re.search(r"\bfrom\s+(?:the\s+)?[A-Z].*\bto\s+(?:the\s+)?[A-Z]", masked)),
        "sum": is_sum(POLITE.sub("", text)),
        "recipient": bool(re.search(r"\b[A-Z][\w-]+['’]s\b", masked)),
        "quoted": bool(find_quoted(text)),
        "number": bool(re.search(r"\d", masked)),
    }
    prefixes = {f"id:{_prefix(match.group())}" for match in REFERENCE_NUMBER.finditer(masked)} - {"id:"}
    return frozenset(name for name, present in offered.items() if present) | prefixes


_GAIN = {
    "expression": 4.0,
    "language": 1.6,
    "currency": 1.8,
    "unit": 1.2,
    "id": 1.2,
    "email": 0.8,
    "date": 0.7,
    "time": 0.6,
    "duration": 0.7,
    "place": 0.5,
    "recipient": 0.6,
}

_LACK = {
    "expression": -3.0,
    "place": -0.6,
    "language": -2.0,
    "currency": -2.0,
    "unit": -1.5,
    "id": -0.5,
    "date": -0.3,
    "email": -0.8,
}


def _reckons(tool: Tool) -> bool:
    """Whether it does one operation on two numbers."""
    named = {word for p in tool.params for value in p.enum for word in words(str(value))}
    numbers = [p for p in tool.params if p.is_number]
    return len(numbers) > 1 and len(named & {"add", "subtract", "multiply", "divide", "plus", "minus"}) > 1


def _samples(tool: Tool) -> frozenset[str]:
    """The beginnings of the references that the descriptions give as examples (``ORD`` of ORD-1234)."""
    told = " ".join(param.description for param in tool.params)
    return frozenset(_prefix(match.group()) for match in REFERENCE_NUMBER.finditer(told))


def _prefix(reference: str) -> str:
    return re.match(r"[A-Za-z]*", reference).group().upper()  # type: ignore[union-attr]


def fit_of(tool: Tool, traits: frozenset[str]) -> float:
    score = 0.0
    seen = set()
    for param in tool.params:
        kind = role_of(param, tool).kind
        kind = {"datetime": "date"}.get(kind, kind)
        if kind in seen:
            continue
        seen.add(kind)
        if kind in traits:
            score += _GAIN.get(kind, 0.0) * (1.0 if param.required else 0.5)
        elif param.required:
            score += _LACK.get(kind, 0.0)
    ends = [p for p in tool.params if role_of(p, tool).kind == "place" and role_of(p, tool).side]
    if "route" in traits and len(ends) > 1:
        score += 2.0
    if "expression" in seen and "sum" in traits:
        score += 4.0
    if "language" in seen and {"language", "quoted"} <= traits and "body" in seen:
        score += 1.5
    units = [p for p in tool.params if role_of(p, tool).kind == "unit"]
    if len(units) > 1 and {"unit", "number"} <= traits:
        score += 3.0
    if "expression" in traits and _reckons(tool):
        score += 4.0
    score += sum(2.0 for trait in traits if trait.startswith("id:") and trait[3:] in _samples(tool))
    if "currency" in traits and "currency" not in seen:
        score -= 0.3
    return score
