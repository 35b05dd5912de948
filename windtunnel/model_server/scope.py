"""What the arguments of one step are taken from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from windtunnel.model_server.areas import Area
from windtunnel.model_server.findings import Finding
from windtunnel.model_server.lexicon import STOPWORDS, VERBS, concepts, stem, wordlist, words
from windtunnel.model_server.names import Span
from windtunnel.model_server.toolspec import Param, Tool

MISSING: Any = object()
_GENERAL = {
    stem(word)
    for word in wordlist(
        "event task reminder note message entry item thing appointment email text memo ticket "
        "alarm timer todo "
        "record information info details search movie film book song recipe order"
    )
}


@dataclass
class Scope:
    """Everything that arguments for one step are taken from; ``areas`` are the step's own text, then wider
    ones."""

    areas: list[Area]
    tool: Tool
    today: date
    past: Sequence[Finding] = ()
    refers: bool = False
    assigned: dict[str, Any] = field(default_factory=dict)
    leaned: bool = False
    wide: Area | None = None
    widely: bool = False

    def texts(self, param: Param) -> Iterator[Area]:
        """Where to look for that parameter: an optional one is only what the step itself says."""
        if self.widely and self.wide is not None:
            yield self.wide
        else:
            yield from self.areas if param.required else self.areas[:1]

    def nouns(self) -> set[str]:
        """Stems of the nouns for the thing that the tool is about."""
        named = {stem(word) for word in words(self.tool.name) if word not in STOPWORDS}
        sentence = words(self.tool.description.split(".")[0])
        described = {stem(w) for w in sentence if w not in STOPWORDS and (concepts(w) or w not in VERBS)}
        return named | described | _GENERAL


def pattern_spans(pattern: re.Pattern[str], text: str) -> list[Span]:
    return [Span(m.start(), m.end(), m.group()) for m in pattern.finditer(text)]


def matching(scope: Scope, param: Param, pattern: re.Pattern[str]) -> Any:
    for area in scope.texts(param):
        if span := area.take(pattern_spans(pattern, area.text)):
            return span.value
    return MISSING
