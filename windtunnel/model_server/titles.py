"""What a thing is called."""

from __future__ import annotations

import re
from typing import Any

from windtunnel.model_server.areas import Area, strip_articles, strip_command, strip_noun, trim
from windtunnel.model_server.bodies import LISTS, is_pronoun, referred
from windtunnel.model_server.lexicon import words
from windtunnel.model_server.names import find_names, find_quoted, mask_quoted
from windtunnel.model_server.scope import MISSING, Scope
from windtunnel.model_server.told import CALLED, SAYING
from windtunnel.model_server.toolspec import Param


def title(scope: Scope, param: Param, side: str) -> Any:
    """What the thing is called: named so, quoted, or the step's words without command, dates and lists."""
    for area in scope.texts(param):
        masked = mask_quoted(area.text)
        if (named := CALLED.search(masked)) and area.is_free(named.end(), named.end() + 1):
            quoted = [q for q in find_quoted(area.text) if q.start == named.end()]
            if quoted:
                area.use(quoted[0].start, quoted[0].end)
                return quoted[0].value
            return until_used(area, named.end())
        if quoted := area.free(find_quoted(area.text)):
            area.use(quoted[0].start, quoted[0].end)
            return quoted[0].value
        if (
            not param.required
            and {"subject", "topic", "about", "agenda", "theme"} & set(words(param.name))
            and (about := re.search(r"\babout\s+(?!it\b|that\b|this\b)([^.,]+?)(?=$|[.,]|\s+saying)", masked))
        ):
            return trim(about[1])
        if not param.required and scope.tool.required:
            return MISSING
        if person := _for_name(area, param):
            return person
        marked = SAYING.search(masked) or re.search(r"(?<!\d):\s+(?=\S)", masked)
        if (
            marked
            and area.is_free(marked.end(), marked.end() + 1)
            and re.search(r"\S", masked[marked.end() :])
        ):
            return (
                trim(Area(area.text[marked.end() :]).text)
                if not any(area.used)
                else until_used(area, marked.end())
            )
        text = _titled(scope, area)
        if text and not is_pronoun(text):
            return text
    if param.required and scope.past:
        value = referred(scope)
        return MISSING if value is None else str(value)
    if scope.assigned and param.required:
        return next(
            (str(v)[:60] for v in scope.assigned.values() if isinstance(v, str) and len(v) > 12), MISSING
        )
    return MISSING


def _for_name(area: Area, param: Param) -> str | None:
    if not {"name", "person", "guest"} & set(words(param.name)) or {"event", "task", "item", "product"} & set(
        words(param.name)
    ):
        return None
    under = re.search(r"\bunder (?:the name (?:of )?|my name,?\s*)?", area.text)
    spans = [s for s in area.free(find_names(area.masked())) if not under or s.start >= under.end()]
    if not spans:
        return None
    area.use(spans[0].start, spans[0].end)
    return spans[0].value


def until_used(area: Area, start: int) -> str:
    """The text from there up to the next stretch that another argument has taken."""
    used = area.used.find(1, start)
    text = area.text[start : used if used >= 0 else len(area.text)]
    text = re.split(r",\s|\.\s|\s+(?:with|at priority|priority|and (?:assign|set|put|give))\b", text)[0]
    return trim(LISTS.sub("", text))


def _titled(scope: Scope, area: Area) -> str:
    text = LISTS.sub("", area.rest())
    bare = _REMIND.sub("", text)
    if bare == text:
        bare = re.sub(
            r"^\W*(?:i|we)(?:'ve| have)? (?:have|got|need)?\s*(?:to\s)?", "", text, flags=re.IGNORECASE
        )
        bare = strip_noun(strip_command(bare), scope.nouns())
    return trim(strip_articles(trim(bare)))


_REMIND = re.compile(
    r"^\W*(?:(?:please|can you|could you)\s+)?(?:remind me|don't let me forget|i (?:need"
    r"|have|want) to remember|make sure i remember)"
    r"\s*(?:of|about|that i (?:need|have) to|that|to)?\s+",
    re.IGNORECASE,
)
