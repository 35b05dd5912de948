"""Arguments that are languages."""

from __future__ import annotations

import re
from typing import Any

from windtunnel.model_server.areas import Area
from windtunnel.model_server.lexicon import LANGUAGE_NAMES, LANGUAGE_SIGNS, words
from windtunnel.model_server.names import Span, find_languages, find_quoted, mask_quoted
from windtunnel.model_server.scope import MISSING, Scope
from windtunnel.model_server.toolspec import Param


def _code_wanted(param: Param) -> bool:
    told = param.description
    if re.search(
        r"\bname\b|in English|e\.g\.?,? ['\"]?(?:English|French|German|Spanish)|such as ['\"]?(?:English"
        r"|French|German)|like ['\"]?(?:English|French)",
        told,
    ):
        return bool(re.search(r"\bISO\b|639", told)) and "name" not in words(param.name)
    return bool(
        re.search(
            r"\bISO\b|639|\bcodes?\b|(?:e\.g\.?,?|like|such as|example:?)\W*[a-z]{2}\b"
            r"|['\"`(][a-z]{2}['\"`),]",
            told,
        )
    ) or "code" in words(param.name)


def written_language(code: str, param: Param) -> str:
    """The language as the parameter wants it: a value of its enum, an ISO code or a name."""
    for value in param.enum:
        if str(value).lower() in (code, LANGUAGE_NAMES.get(code)) or str(value).lower().split("-")[0] == code:
            return str(value)
    return code if _code_wanted(param) else LANGUAGE_NAMES.get(code, code).capitalize()


_NAMES = {"language", "lang", "code", "locale"}


def language(scope: Scope, param: Param, side: str) -> Any:
    """One language of the text: the wanted one behind "into", the original one behind "from"."""
    pairs = len([p for p in scope.tool.params if _NAMES & set(words(p.name)) or p.name in ("from", "to")]) > 1
    side = side if pairs else ""
    for area in scope.texts(param):
        spans = area.free(find_languages(area.text)) or _codes_in(area)
        chosen = [s for s in spans if _language_side(area, s, len(spans)) == (side or "to")]
        chosen = chosen or ([] if pairs else spans)
        if chosen:
            area.use(chosen[0].start, chosen[0].end)
            return written_language(chosen[0].value, param)
    if side != "from" or not param.required:
        return MISSING
    auto = [str(v) for v in param.enum if str(v).lower() in ("auto", "detect", "automatic")]
    if auto or re.search(r"\bauto\b", param.description):
        return auto[0] if auto else "auto"
    return written_language(_guessed(scope), param)


def _codes_in(area: Area) -> list[Span]:
    return [
        Span(m.start(1), m.end(1), m[1].lower())
        for m in re.finditer(r"\b(?:from|to|into)\s+([a-zA-Z]{2})\b", mask_quoted(area.text))
        if m[1].lower() in LANGUAGE_NAMES
    ]


def _language_side(area: Area, span: Span, count: int) -> str:
    before = area.before(span)
    if re.match(
        r"\s+(?:word|words|phrase|term|expression|translation|equivalent|version)\s+(?:for|of)\b",
        area.text[span.end :],
    ):
        return "to"
    if re.search(r"\b(?:from|in the|the|original|source)\s+(?:the\s+)?$", before) or re.match(
        r"\s+(?:word|phrase|sentence|text|expression|message|for\b)", area.text[span.end :]
    ):
        return "from" if not re.search(r"\b(?:to|into)\s+$", before) else "to"
    return "to"


def _guessed(scope: Scope) -> str:
    """The language of the text to translate, by its common words; English if they do not tell."""
    quoted = [span.value for area in scope.areas for span in find_quoted(area.text)]
    earlier = [str(value.value) for finding in scope.past for value in finding.values]
    texts = [
        *quoted,
        *(str(v) for v in scope.assigned.values() if len(str(v)) > 3),
        *(earlier if scope.refers else []),
    ]
    found = {
        code: sum(word in signs for text in texts[:1] for word in words(text))
        for code, signs in LANGUAGE_SIGNS.items()
    }
    best = max(found, key=lambda code: found[code])
    return best if found[best] else "en"
