"""Arguments chosen from a few: enums and booleans."""

from __future__ import annotations

import re
from typing import Any

from windtunnel.model_server.lexicon import STOPWORDS, concepts, stem, synonyms, words
from windtunnel.model_server.names import mask_quoted
from windtunnel.model_server.scope import MISSING, Scope
from windtunnel.model_server.toolspec import Param

_NEGATIVE = re.compile(
    r"\b(?:no|not|don't|do not|without|disable|off|never|isn't|exclude|excluding)\b[^.,;]{0,25}$",
    re.IGNORECASE,
)


def enumerated(scope: Scope, param: Param, side: str) -> Any:
    """The value that the text names, by itself, a synonym or its stem; a required one falls back on its
    default."""
    for area in scope.texts(param):
        text = mask_quoted(area.text).lower()
        scored = [(_named(str(value).lower(), text), -index, value) for index, value in enumerate(param.enum)]
        best = max(scored, key=lambda each: each[:2], default=(0, 0, None))
        if best[0] > 0:
            return best[2]
    if not param.required:
        return MISSING
    if param.default is not None:
        return param.default
    usual = [
        v
        for v in param.enum
        if str(v).lower()
        in ("metric", "celsius", "normal", "medium", "default", "standard", "auto", "any", "all")
    ]
    return usual[0] if usual else param.enum[0]


def _named(value: str, text: str) -> float:
    """How surely the text names the value: 3 literally, 2 by a synonym, 1 by stem or field of meaning;
    else 0."""
    spoken = value.replace("_", " ").replace("-", " ")
    if re.search(rf"(?<![\w-]){re.escape(spoken)}(?![\w-])", text):
        if spoken in STOPWORDS and not re.search(
            rf"\b(?:turn|switch|set|put|turned|is|to|it)\b[\w\s]{{0,30}}\b{spoken}\b", text
        ):
            return 0
        return 3 + len(spoken) / 100
    if len(spoken) < 2:
        return 0
    parts = words(spoken)
    if any(
        re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", text)
        for word in synonyms(spoken)
        if len(word) > 1
    ):
        return 2
    said = {stem(word) for word in words(text) if word not in STOPWORDS}
    if parts and all(stem(word) in said for word in parts):
        return 1.5
    if any(len(word) > 3 and stem(word) in said for word in parts):
        return 1
    fields = {concept for word in words(text) for concept in concepts(word)}
    return (
        0.5
        if len(parts) == 1 and set(concepts(parts[0])) & fields and len(value) > 4 and value not in ("c", "f")
        else 0
    )


def boolean(scope: Scope, param: Param, side: str) -> Any:
    """True where the text names the parameter, false where it denies it."""
    wanted = [
        word
        for word in words(param.name)
        if word not in STOPWORDS and word not in ("enabled", "include", "flag", "has", "only")
    ]
    area = scope.areas[0]
    masked = mask_quoted(area.text)
    for match in re.finditer(r"[A-Za-z]+", masked):
        if stem(match.group().lower()) in {stem(word) for word in wanted} and len(match.group()) > 2:
            return not _NEGATIVE.search(masked[: match.start()])
    if re.search(r"\b(?:turn|switch)\b[\w\s]*\b(on|off)\b", masked, re.IGNORECASE) and {
        "on",
        "enabled",
        "state",
        "power",
    } & set(words(param.name)):
        return not re.search(r"\boff\b", masked, re.IGNORECASE)
    if not param.required:
        return MISSING
    if param.default is not None:
        return param.default
    return bool(re.search(r"\b(?:turn|switch)\b.*\bon\b|\benable\b|\bactivate\b", masked, re.IGNORECASE))
