"""What a parameter is for, read from its name, type, enum and description."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from windtunnel.model_server.lexicon import CURRENCIES, LANGUAGES, UNITS, features, wordlist, words
from windtunnel.model_server.toolspec import Param, Tool

_KINDS = {
    "email": "email mail e-mail",
    "phone": "phone telephone mobile tel msisdn",
    "url": "url link website uri",
    "place": "city place location town destination origin country region address where venue "
    "airport area state "
    "municipality room zone locality restaurant hotel shop store cafe museum station "
    "neighborhood neighbourhood capital",
    "recipient": "recipient recipients receiver addressee contact person whom attendee attendees "
    "username assignee "
    "participant participants invitee invitees colleague to guest guests channel who "
    "user owner employee patient customer client payee supplier vendor",
    "body": "body letter text content contents message msg memo comment note sentence phrase "
    "details description remark "
    "reason words passage payload caption review feedback instructions",
    "title": "title subject label headline heading caption task item event name chore todo reminder "
    "summary items "
    "about what appointment dish film movie book song product",
    "query": "query q search term terms keyword keywords topic question artist ingredient author ingredients "
    "subject_matter lookup find",
    "date": "date day dates",
    "time": "time hour clock",
    "datetime": "datetime when start end timestamp due deadline moment at until begin begins starts ends",
    "duration": "duration minutes length seconds hours mins secs nights",
    "expression": "expression expr formula calculation equation math maths arithmetic",
    "amount": "amount value quantity sum price total number count budget limit qty people persons size seats "
    "temperature level degrees percent percentage rating score stars max min n brightness "
    "volume age weight guests "
    "party tickets passengers threshold target rooms copies servings years months principal rate top",
    "language": "language lang locale tongue languages",
    "currency": "currency currencies",
    "unit": "unit units",
    "id": "id identifier code ref reference key sku isbn tracking symbol ticker no pnr flight "
    "order invoice ticket "
    "booking account number",
    "year": "year",
}
_WORDS = {word: kind for kind, listed in reversed(list(_KINDS.items())) for word in listed.split()}


class _ByWord(dict[str, str]):
    """The table, in which a plural is found under its singular."""

    def __contains__(self, word: object) -> bool:
        return super().__contains__(word) or (
            isinstance(word, str) and super().__contains__(word.rstrip("s"))
        )

    def __missing__(self, word: str) -> str:
        return self[word.rstrip("s")] if super().__contains__(word.rstrip("s")) else ""


_KIND_OF = _ByWord(_WORDS)
_FROM = {"from", "source", "src", "origin", "base", "departure", "depart", "start", "original", "input"}
_TO = {"to", "target", "dest", "destination", "into", "arrival", "end", "output", "quote", "dst"}
_MATHS = {
    "mathematical",
    "arithmetic",
    "arithmetical",
    "formula",
    "calculates",
    "calculate",
    "calculation",
    "maths",
}
_SEEKS = frozenset(wordlist("search query look looks find finds searches keyword keywords lookup"))
_VAGUE = {
    "from",
    "to",
    "source",
    "target",
    "src",
    "dest",
    "value",
    "name",
    "start",
    "end",
    "number",
    "base",
    "input",
    "data",
    "what",
    "quote",
}
_TYPED = {"date": "date", "time": "time", "date-time": "datetime", "email": "email", "uri": "url"}


@dataclass(frozen=True)
class Role:
    """``kind`` as in the table above, or ``enum``, ``boolean``, ``object``, ``array``, ``string``;
    ``side`` is ``from`` or ``to`` for one half of a pair."""

    kind: str
    side: str = ""


@lru_cache(maxsize=4096)
def role_of(param: Param, tool: Tool) -> Role:
    """The parameter's role; ``string`` where nothing tells."""
    name = words(param.name)
    side = _side(name, tool)
    if param.kind == "boolean":
        return Role("boolean")
    if param.enum:
        return Role(_enum_kind(param), side)
    if param.kind == "object":
        return Role("object")
    if param.format in _TYPED:
        return Role(_TYPED[param.format], side)
    kind = _kind(name, words(param.description), param.is_number)
    if kind in ("id", "string", "query", "title") and (side or set(name) & (_VAGUE | {"code"})):
        kind = _converted(param, tool) or kind
    if (
        kind == "datetime"
        and "destination" in {w for p in tool.params for w in words(p.name)}
        and side == "from"
    ):
        kind = "place"
    if kind == "datetime" and not param.is_number:
        kind = _moment(param, tool)
    if kind in ("string", "place", "title", "query") and re.search(
        r"\bYYYY\b|YYYY-MM|\d{4}-\d\d-\d\d", param.description
    ):
        kind = "datetime" if re.search(r"HH|T\d\d", param.description) else "date"
    free = [p for p in tool.params if p.kind == "string" and not p.enum]
    if (
        kind in ("string", "title", "query", "body")
        and len(free) == 1
        and _MATHS & {*words(param.description), *words(tool.description)}
    ):
        kind = "expression"
    if kind in ("string", "title", "query") and re.search(r"\bHH:MM", param.description):
        kind = "time"
    if kind in ("date", "time") and re.search(
        r"date[- ]?time|date and time|T\d\d|THH|HH:MM.*YYYY|YYYY.*HH:MM", param.description
    ):
        kind = "datetime"
    return Role(_fitting(kind, param, tool), side)


def _converted(param: Param, tool: Tool) -> str:
    """``currency`` or ``language`` for an ISO code of a tool that converts one into another."""
    if not re.search(r"\bISO\b|\bcode\b|\b[A-Z]{3}\b", param.description) or "date" in param.description:
        return ""
    told = set(features(f"{tool.name} {tool.description}"))
    return "currency" if "@currency" in told else "language" if "@translate" in told else ""


def _side(name: list[str], tool: Tool) -> str:
    if set(name) & _FROM:
        return "from"
    if not set(name) & _TO:
        return ""
    return "to" if tool.operation != "send" or len(name) > 1 else ""


def _enum_kind(param: Param) -> str:
    values = [str(value).lower() for value in param.enum]
    name = words(param.name)
    kind = _kind(name, words(param.description), False)
    if kind == "language" or all(v in LANGUAGES or v in _codes() for v in values if v != "auto"):
        return "language"
    if kind == "currency" or all(v in CURRENCIES for v in values):
        return "currency"
    if (kind == "unit" and not {"metric", "imperial", "standard"} & set(values)) or all(
        v in UNITS for v in values
    ):
        return "unit" if not {"metric", "imperial", "standard"} & set(values) else "enum"
    return "enum"


def _codes() -> frozenset[str]:
    return frozenset(LANGUAGES.values())


def _kind(name: list[str], description: list[str], number: bool) -> str:
    """The last telling word of the name, else the first telling one of the description."""
    if {"from", "to"} & set(name[:1]) and len(name) > 1:
        name = name[1:]
    if name[-1:] == ["name"] and len(name) > 1 and name[-2] in _KIND_OF:
        name = name[:-1]
    clear = [_KIND_OF[w] for w in reversed(name) if w in _KIND_OF and w not in _VAGUE]
    if clear:
        both = set(clear)
        if name[-1] in ("number", "no", "num", "code", "ref", "id") and not number:
            return "phone" if "phone" in both else "id"
        return clear[0]
    if name[-1:] == ["number"] and len(name) > 1 and not number:
        return "id"
    told = [_KIND_OF[w] for w in description if w in _KIND_OF and w not in _VAGUE]
    strong = [
        kind
        for kind in told
        if kind in ("language", "currency", "unit", "email", "expression", "id", "place", "date")
    ]
    if "email" in told and "phone" not in told and set(name) & _VAGUE:
        return "email"
    if told and set(name) & _VAGUE:
        return strong[0] if strong else told[0]
    vague = [_KIND_OF[w] for w in reversed(name) if w in _KIND_OF]
    return vague[0] if vague else (strong[0] if strong and not number else told[0] if told else "string")


def _moment(param: Param, tool: Tool) -> str:
    """A parameter like ``start``, ``due`` or ``when``: a date, a time of day or both."""
    told = words(param.description)
    others = {word for other in tool.params if other is not param for word in words(other.name)}
    timed = bool({"time", "hour", "clock", "hh", "am"} & set(told)) or re.search(
        r"\d\d:\d\d|HH:", param.description
    )
    dated = bool({"date", "day", "yyyy", "iso"} & set(told)) or re.search(r"\d{4}-", param.description)
    if "date" in others or "day" in others:
        return "time"
    if "time" in others and not timed:
        return "date"
    if timed and not dated:
        return "time"
    if dated and not timed and "iso" not in told:
        return "date"
    return "datetime"


def _fitting(kind: str, param: Param, tool: Tool) -> str:
    """Corrects the role where type or surroundings forbid it."""
    if param.is_number:
        return (
            kind
            if kind in ("amount", "duration", "id", "year")
            else "duration"
            if kind == "time"
            else "amount"
        )
    if kind in ("date", "time", "datetime") and re.search(r"zone|format|range", param.name):
        return "place" if "zone" in param.name else "string"
    if kind == "recipient" and param.name == "to" and {"from", "origin"} & {p.name for p in tool.params}:
        return "place" if tool.operation != "send" else kind
    if (
        kind == "body"
        and tool.operation == "read"
        and _SEEKS & {*words(param.name), *words(param.description), *words(tool.description)}
    ):
        return "query"
    if kind == "title" and tool.operation == "read":
        return "query"
    return kind
