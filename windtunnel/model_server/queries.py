"""What to look for."""

from __future__ import annotations

import re
from typing import Any

from windtunnel.model_server.areas import Area, strip_articles, strip_command, strip_noun, trim
from windtunnel.model_server.bodies import referred
from windtunnel.model_server.findings import field_named
from windtunnel.model_server.lexicon import features, stem, words
from windtunnel.model_server.names import find_names, find_quoted
from windtunnel.model_server.scope import MISSING, Scope
from windtunnel.model_server.titles import title, until_used
from windtunnel.model_server.told import CALLED, WH
from windtunnel.model_server.toolspec import Param


def query(scope: Scope, param: Param, side: str) -> Any:
    """What to look for: a quoted or proper name for a catalogue, the question itself for a search."""
    for area in scope.texts(param):
        quoted = area.free(find_quoted(area.text))
        if quoted and not (
            is_general(scope)
            and not scope.tool.writes
            and re.match(r"\s+\w+\s+\w+", area.text[quoted[0].end :])
        ):
            area.use(quoted[0].start, quoted[0].end)
            return quoted[0].value
        if not param.required and scope.tool.required:
            return title(scope, param, side) if scope.tool.writes else MISSING
        about = re.search(
            r"\b(?:about|regarding|concerning|on the (?:topic|subject) of)\s+(?!it\b|that\b)(\S.*)",
            area.rest(),
        )
        if about and not is_general(scope):
            return trim(about[1])
        text = _named_thing(scope, area) if not is_general(scope) else None
        text = text or _searched(scope, area)
        if text and not (
            scope.refers and re.fullmatch(r"(?:it|this|that|them|him|her|the \w+)", text, re.IGNORECASE)
        ):
            return text
    if scope.past and param.required:
        found = (
            field_named([f.data for f in reversed(scope.past)], set(words(param.name)) - {"name", "query"})
            if param.name not in ("query", "q")
            else None
        )
        value = found if found is not None else referred(scope)
        scope.leaned = True
        return MISSING if value is None else value if param.is_number else str(value)
    return MISSING


def is_general(scope: Scope) -> bool:
    """Whether the tool searches anything (the web, an encyclopedia) and not one kind of thing."""
    found = set(features(f"{scope.tool.name} {scope.tool.description}"))
    found |= set(features(" ".join(param.name for param in scope.tool.params)))
    return "@web" in found or not any(feature.startswith("@") for feature in found)


def _named_thing(scope: Scope, area: Area) -> str | None:
    masked = area.masked()
    named = CALLED.search(masked)
    if named and named.end() < len(masked) and masked[named.end() :].strip():
        return until_used(area, named.end())
    own = scope.nouns()
    names = [s for s in find_names(masked) if not {stem(w) for w in words(s.value)} <= own]
    if not names:
        return None
    names.sort(key=lambda s: -len(s.value))
    area.use(names[0].start, names[0].end)
    return names[0].value


def _searched(scope: Scope, area: Area) -> str:
    text = _WEB.sub(" ", area.rest())
    text = re.sub(r"\s+", " ", text).strip()
    text = strip_command(text)
    text = re.sub(
        r"^(?:(?:any|some|more|the latest)?\s*(?:information|info|details|facts|data|results"
        r"|out|everything)\s*(?:on|about|for|of|regarding)?\s+)",
        "",
        text,
        flags=re.IGNORECASE,
    )
    text = re.sub(r"^(?:for|about|out|on)\s+", "", text, flags=re.IGNORECASE)
    if is_general(scope):
        return trim(strip_articles(text)) if not WH.match(text) else text.strip(" .?!")
    text = re.sub(
        r"^(?:what|which|who|whose|how|where|when)(?:['’]s| is| are| was| were| does| do"
        r"| did| much| many)*\s+",
        "",
        text,
        flags=re.IGNORECASE,
    )
    stripped = strip_noun(text, scope.nouns(), keep=())
    kept = stripped.split()
    while len(kept) > 1 and stem(re.sub(r"\W", "", kept[-1]).lower()) in scope.nouns():
        kept.pop()
    return trim(strip_articles(" ".join(kept)))


_WEB = re.compile(
    r"\b(?:(?:on|in|from|via|using|across)\s+)?(?:the\s+)?(?:web|internet|google|wikipedia)\b(?:\s+(?:for"
    r"|about|and find|to find))?|\bonline\b(?:\s+for)?",
    re.IGNORECASE,
)
