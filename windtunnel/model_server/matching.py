"""Which tool a step calls for: words, kind of operation, and whether its parameters can be filled."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from windtunnel.model_server.areas import POLITE
from windtunnel.model_server.lexicon import WRITES, concepts, features, operations, stem, wordlist, words
from windtunnel.model_server.names import find_names, find_quoted, mask_quoted
from windtunnel.model_server.operations import operation_of
from windtunnel.model_server.toolspec import Tool
from windtunnel.model_server.traits import fit_of, traits_of, untold

THRESHOLD = 2.0

_PLAIN = frozenset(
    wordlist("look find get search show check fetch give see list return what know need tell say")
)


@dataclass(frozen=True)
class Match:
    """``lexical`` is the part of the score that shared words give."""

    tool: Tool
    score: float
    lexical: float


def rank(text: str, tools: Sequence[Tool], today: date, context: str = "") -> list[Match]:
    """The tools by how well they suit the step, the best first."""
    tables = [_tool_features(tool) for tool in tools]
    shared: dict[str, int] = {}
    for table in tables:
        for feature in table:
            shared[feature] = shared.get(feature, 0) + 1
    said = dict(features(_spoken(text)))
    said.update({feature: 0.4 for feature in said if feature in _PLAIN})
    for feature, weight in features(_spoken(context)).items():
        said.setdefault(feature, weight * 0.4)
    operation = operation_of(text)
    traits = traits_of(
        untold(mask_quoted(text)) + " " + context + (" '_'" if find_quoted(text) else ""), today
    )
    found = []
    for tool, table in zip(tools, tables, strict=True):
        lexical = sum(table[f] * w / shared[f] ** 0.7 for f, w in said.items() if f in table)
        score = (
            lexical
            + _agreement(operation, tool) * (1 if lexical > 0.8 or operation == "send" else 0.35)
            + fit_of(tool, traits)
        )
        score += _leading(text, tool)
        found.append(Match(tool, score, lexical))
    return sorted(found, key=lambda match: -match.score)


@lru_cache(maxsize=512)
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


@lru_cache(maxsize=512)
def _heads(tool: Tool) -> frozenset[str]:
    return frozenset(stem(word) for word in (*words(tool.name), *words(tool.description)[:1]))


def _leading(text: str, tool: Tool) -> float:
    """The command's own verb in the tool's name or at the head of its description says most."""
    first = words(POLITE.sub("", text))[:1]
    if not first or not operations(first[0]):
        return 0.0
    if first[0] in _PLAIN or tool.operation == "send":
        return 0.0
    if stem(first[0]) in _heads(tool):
        return 2.5
    fields = {"@" + concept for concept in concepts(first[0])}
    return 1.5 if fields & {*features(tool.name), *features(tool.description)} and not tool.writes else 0.0


_IMPLIED = (
    (
        re.compile(
            r"\b(?:what|when) (?:do |am |are )?(?:i|we) (?:have|got|doing)\b|\bam i (?:free|busy)\b"
            r"|\bmy plans\b",
            re.IGNORECASE,
        ),
        "calendar",
    ),
    (
        re.compile(
            r"\bdid [A-Z]\w+ (?:write|say|send|text|tell|answer|reply)\b|\b(?:wrote|sent|texted) (?:to )?me\b"
        ),
        "inbox messages received",
    ),
    (re.compile(r"\bhave to do\b|\bto[ -]?dos?\b", re.IGNORECASE), "task todo"),
)


@lru_cache(maxsize=2048)
def _spoken(text: str) -> str:
    """What counts for the choice: quoted words and the words of a message do not."""
    text = mask_quoted(POLITE.sub("", text))
    text += "".join(f" {added}" for pattern, added in _IMPLIED if pattern.search(text))
    text = re.sub(
        r"\b(e-?mail address|(?:phone|telephone|mobile) number|contact details)\b", r"\1 contact", text
    )
    text = re.sub(r"['’]s (number|phone|e-?mail|address|birthday|mobile)\b", r" \1 contact", text)
    text = untold(text)
    names = "|".join(re.escape(s.value) for s in find_names(text) if len(s.value.split()) > 1)
    return re.sub(names, " ", text) if names else text


def _agreement(operation: str, tool: Tool) -> float:
    own = tool.operation
    if not operation:
        return -0.8 if own in WRITES else 0.5
    if operation == own:
        return 3.0 if operation in WRITES else 1.2
    if own in WRITES and operation in WRITES:
        pair = {operation, own}
        return -4.0 if "delete" in pair else -1.0
    return -4.0 if own in WRITES else -2.5
