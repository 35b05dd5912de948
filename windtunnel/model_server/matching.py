"""Which tool a step calls for: words, kind of operation, and whether its parameters can be filled."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from windtunnel.model_server.areas import POLITE
from windtunnel.model_server.dates import find_dates
from windtunnel.model_server.expressions import find_expressions
from windtunnel.model_server.lexicon import NOUN_VERBS, WRITES, features, operations, stem, words
from windtunnel.model_server.names import EMAIL, find_languages, find_names, find_quoted, mask_quoted
from windtunnel.model_server.names import IDENTIFIER as REFERENCE_NUMBER
from windtunnel.model_server.roles import role_of
from windtunnel.model_server.times import find_durations, find_times
from windtunnel.model_server.toolspec import Tool
from windtunnel.model_server.typed import find_currencies, find_units

THRESHOLD = 2.2
_QUESTION = re.compile(
    r"^\W*(?:what|which|who|whom|whose|when|where|how|why|is|are|was|were|do|does|did|will|has|have|any)\b",
    re.IGNORECASE,
)
_TO_ME = re.compile(
    r"^\W*(?:send|tell|give|show|get|bring|fetch|text|read)\s+me\b(?!\s+(?:a|an)\s+(?:message|text|email|reminder|note))",
    re.IGNORECASE,
)
_WANTS = re.compile(
    r"^\W*(?:(?:can|could|would|will) you|please|i(?:'d| would) like|i (?:want|need))\b", re.IGNORECASE
)


@dataclass(frozen=True)
class Match:
    tool: Tool
    score: float


def operation_of(text: str) -> str:
    """What the step's leading verb does; empty if it has none, ``read`` for a question."""
    if _TO_ME.match(POLITE.sub("", text)):
        return "read"
    bare = POLITE.sub("", text).strip() or text
    if _is_sum(bare):
        return "read"
    if _QUESTION.match(bare):
        return "read"
    if re.match(r"^(?:let)\s+[\w@.'-]+(?:\s\w+)?\s+know\b", bare, re.IGNORECASE):
        return "send"
    if re.match(
        r"^(?:put|note|write) (?:it |that |this )?down\b|^(?:set up|sign up|put)\b", bare, re.IGNORECASE
    ):
        return "create"
    if re.match(r"^(?:call off|get rid of|take (?:\w+ ){1,4}off)\b", bare, re.IGNORECASE):
        return "delete"
    if re.match(
        r"^(?:push|bring|put) (?:back|forward)\b|^put (?:\w+ ){1,4}(?:on hold|back)\b", bare, re.IGNORECASE
    ):
        return "update"
    first = words(bare)[:1]
    found = operations(first[0]) if first else ()
    if not found:
        return ""
    following = words(bare)[1:2]
    if first[0] in NOUN_VERBS and following and following[0] in ("in", "of", "on", "for", "is", "at"):
        return ""
    if "update" in found and "create" in found:
        return "create"
    if first[0] == "set":
        return (
            "create"
            if re.search(r"\b(?:timer|alarm|reminder|meeting|appointment|event)\b", bare, re.IGNORECASE)
            else "update"
        )
    if first[0] in ("say", "share", "track", "contact") or ("read" in found and len(found) == 1):
        return "read"
    return next((each for each in WRITES if each in found), found[0])


def _is_sum(text: str) -> bool:
    """Whether the text is nothing but arithmetic ("add 10 to the result")."""
    masked = mask_quoted(text).strip(" .?!")
    return any(
        len(masked) - (e.end - e.start) <= 0.25 * len(masked)
        for e in find_expressions(masked, follow_on=True)
    )


def _tool_features(tool: Tool) -> Mapping[str, float]:
    """The words of a tool, its name's weighing most."""
    weights: dict[str, float] = {}
    sources = [(tool.name, 3.0), (tool.description, 1.6)]
    for param in tool.params:
        sources += [
            (param.name, 1.0),
            (param.description, 0.4),
            (" ".join(str(v).replace("_", " ") for v in param.enum), 1.2),
        ]
    for text, weight in sources:
        for feature, part in features(text).items():
            weights[feature] = max(weights.get(feature, 0.0), weight * part)
    return weights


def rank(text: str, tools: Sequence[Tool], today: date, context: str = "") -> list[Match]:
    """The tools by how well they suit the step, the best first."""
    tables = [_tool_features(tool) for tool in tools]
    shared: dict[str, int] = {}
    for table in tables:
        for feature in table:
            shared[feature] = shared.get(feature, 0) + 1
    said = dict(features(_spoken(text)))
    for feature, weight in features(_spoken(context)).items():
        said.setdefault(feature, weight * 0.4)
    operation = operation_of(text)
    traits = _traits(text + " " + context, today)
    found = []
    for tool, table in zip(tools, tables, strict=True):
        lexical = sum(table[f] * w / shared[f] ** 0.7 for f, w in said.items() if f in table)
        score = (
            lexical
            + _agreement(operation, tool) * (1 if lexical > 0.8 or operation == "send" else 0.35)
            + _fit(tool, traits)
        )
        score += _leading(text, tool)
        found.append(Match(tool, score))
    return sorted(found, key=lambda match: -match.score)


def _leading(text: str, tool: Tool) -> float:
    """The command's own verb in the tool's name or at the head of its description says most."""
    first = words(POLITE.sub("", text))[:1]
    if not first or not operations(first[0]):
        return 0.0
    verb = stem(first[0])
    heads = {stem(word) for word in words(tool.name)} | {stem(word) for word in words(tool.description)[:1]}
    return 1.5 if verb in heads and tool.operation != "send" else 0.0


def _spoken(text: str) -> str:
    """What counts for the choice: quoted words and the words of a message do not."""
    text = mask_quoted(POLITE.sub("", text))
    text = re.sub(r"\b(saying|that says|that reads)\b.*", r"\1", text, flags=re.IGNORECASE | re.DOTALL)
    text = re.sub(
        r"\b(tell|let|inform|notify|remind|ask|message|text|email)\b(\s+[\w.@-]+(?:\s+know)?\s+that\b).*",
        r"\1",
        text,
        flags=re.IGNORECASE | re.DOTALL,
    )
    names = "|".join(re.escape(s.value) for s in find_names(text) if len(s.value.split()) > 1)
    return re.sub(names, " ", text) if names else text


def _agreement(operation: str, tool: Tool) -> float:
    own = tool.operation
    if not operation:
        return -1.5 if own in WRITES else 0.5
    if operation == own:
        return 3.0 if operation in WRITES else 1.2
    if own in WRITES and operation in WRITES:
        pair = {operation, own}
        return -4.0 if "delete" in pair else -1.0
    return -4.0 if own in WRITES else -2.5


def _traits(text: str, today: date) -> frozenset[str]:
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
        "expression": any(
            re.search(r"\D", e.formula)
            for e in find_expressions(masked)
            if e.references == 0 or e.end - e.start > 8
        ),
        "place": bool(re.search(r"\b(?:in|at|near|for|to|from|of)\s+[A-Z]", masked)),
        "sum": _is_sum(POLITE.sub("", text)),
        "quoted": bool(find_quoted(text)),
        "number": bool(re.search(r"\d", masked)),
    }
    return frozenset(name for name, present in offered.items() if present)


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
}
_LACK = {
    "expression": -3.0,
    "language": -2.0,
    "currency": -2.0,
    "unit": -1.5,
    "id": -0.5,
    "date": -0.3,
    "email": -0.2,
}


def _fit(tool: Tool, traits: frozenset[str]) -> float:
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
    if "expression" in seen and "sum" in traits:
        score += 4.0
    if "language" in seen and {"language", "quoted"} <= traits and "body" in seen:
        score += 1.5
    if "currency" in traits and "currency" not in seen:
        score -= 0.3
    return score
