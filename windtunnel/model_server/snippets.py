"""Figures and names in running text: what a search snippet or a plain answer says to a question."""

from __future__ import annotations

import re

from windtunnel.model_server.findings import Value
from windtunnel.model_server.lexicon import STOPWORDS, stem, words
from windtunnel.model_server.names import find_names
from windtunnel.model_server.numbers import FIGURE, parse_number, tidy

_LENGTH = r"(?:kilo|centi|milli)?met(?:re|er)s?|km|cm|mm|m|feet|foot|ft|inches|miles?|mi|light[- ]years?"
_DIMENSIONS = (
    (
        r"\b(?:tall|high|height|elevation|deep|depth|wide|width|far|distance|altitude|how "
        r"long|length)\b",
        _LENGTH,
    ),
    (r"\b(?:heavy|weigh|weighs|weight|mass)\b", r"kilograms?|kg|grams?|g|tonnes?|tons?|pounds?|lbs?|t"),
    (
        r"\b(?:fast|speed)\b",
        r"km/h|kph|mph|m/s|kilomet(?:re|er)s per hour|miles per hour|(?:kilo)?met(?:re|er)s "
        r"per second",
    ),
    (
        r"\b(?:temperature|hot|cold|warm|degrees|boiling|melting|weather)\b",
        r"°\s?[CFK]|degrees(?: (?:celsius|fahrenheit))?|celsius|fahrenheit|kelvin|C\b|F\b",
    ),
    (
        r"\b(?:cost|price|budget|salary|bill|rent|fee|much|worth|fare)\b",
        r"dollars?|euros?|pounds?|yen|USD|EUR|GBP|JPY|CHF|€|\$|£",
    ),
    (
        r"\b(?:old|age|how long|duration|last|runtime|minutes|hours)\b",
        r"years?(?: old)?|months?|days?|hours?|minutes?|min|seconds?|weeks?",
    ),
    (r"\b(?:humidity|percent|percentage|chance|share)\b", r"%|percent"),
    (r"\b(?:area|large|big|size)\b", r"(?:square )?(?:km²|km2|kilomet(?:re|er)s|miles|hectares|acres|m²)"),
)
_YEAR = re.compile(r"\b(?:when|year|what date|which year)\b", re.IGNORECASE)
_MANY = re.compile(r"\b(?:population|how many|number of|inhabitants)\b", re.IGNORECASE)
_WHO = re.compile(
    r"\b(?:who|whom|whose|author|wrote|director|directed|painted|invented|inventor|composer"
    r"|capital|where|president|founder|discovered)\b",
    re.IGNORECASE,
)


def from_text(question: str, text: str) -> tuple[Value, ...]:
    """The figure or name that the text gives to the question; else the whole text as one value."""
    text = re.sub(r"\s+", " ", text).strip()
    if not text:
        return ()
    sentences = _ranked(question, text)
    for dimension, units in _DIMENSIONS:
        if re.search(dimension, question, re.IGNORECASE):
            for sentence in sentences:
                if value := _measured(sentence, units):
                    return (value,)
    if _CLOCK.search(question) and (times := [m for each in sentences if (m := _TIME.search(each))]):
        return (Value(times[0].group(), None, "time"),)
    if numbered := _numbered(question, sentences):
        return (numbered,)
    if _MANY.search(question):
        for sentence in sentences:
            if value := _counted(sentence):
                return (value,)
    if _YEAR.search(question):
        for sentence in sentences:
            if year := re.search(r"\b(1\d{3}|20\d{2})\b", sentence):
                return (Value(int(year[1]), None, "year"),)
    if _WHO.search(question):
        asked = {stem(word) for word in words(question)}
        for sentence in sentences:
            for span in find_names(sentence):
                if not {stem(word) for word in words(span.value)} <= asked:
                    return (Value(span.value),)
    return (Value(_number_or(text)),)


_CLOCK = re.compile(r"\b(?:what time|when|which time)\b", re.IGNORECASE)
_TIME = re.compile(r"\b\d{1,2}:\d\d(?:\s*[ap]m)?\b", re.IGNORECASE)


def _numbered(question: str, sentences: list[str]) -> Value | None:
    """ "room 314" for "which room", "gate B7" for "what gate"."""
    for noun in re.findall(r"\b(?:which|what|the) ([a-z]+)\b", question.lower()):
        for sentence in sentences:
            if found := re.search(
                rf"\b{noun}\s+(?:number\s+|no\.?\s+)?([A-Z]?\d\w*)\b", sentence, re.IGNORECASE
            ):
                return Value(_number_or(found[1]), None, noun)
    return None


def _number_or(text: str) -> int | float | str:
    return tidy(parse_number(text)) if re.fullmatch(FIGURE, text) else text


def _ranked(question: str, text: str) -> list[str]:
    """The text's sentences, those that share most words with the question first."""
    wanted = {stem(word) for word in words(question) if word not in STOPWORDS}
    sentences = re.split(r"(?<=[.!?])\s+(?=[A-Z])", text)
    return sorted(sentences, key=lambda sentence: -len(wanted & {stem(word) for word in words(sentence)}))


def _measured(sentence: str, units: str) -> Value | None:
    sign = re.search(rf"([$€£])\s?({FIGURE.replace('(?<![' + chr(92) + 'w.])', '')})", sentence)
    if sign and "$" in units:
        return Value(tidy(parse_number(sign[2])), {"$": "USD", "€": "EUR", "£": "GBP"}[sign[1]])
    match = re.search(rf"({FIGURE})(?:\s(million|billion|thousand))?[\s-]?({units})(?!\w)", sentence)
    if not match:
        return None
    scale = {"million": 1e6, "billion": 1e9, "thousand": 1e3}.get(match[2] or "", 1)
    return Value(tidy(parse_number(match[1]) * scale), match[3])


def _counted(sentence: str) -> Value | None:
    for match in re.finditer(rf"({FIGURE})(?:\s(million|billion|thousand))?(?:\s+([a-z]+))?", sentence):
        number = parse_number(match[1])
        if not match[2] and re.fullmatch(r"1[89]\d\d|20\d\d", match[1]):
            continue
        scale = {"million": 1e6, "billion": 1e9, "thousand": 1e3}.get(match[2] or "", 1)
        return Value(tidy(number * scale), match[3] if match[3] not in STOPWORDS else None)
    return None
