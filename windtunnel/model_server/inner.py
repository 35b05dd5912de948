"""What must be found first for a step that speaks of it: "message Bob the weather in Paris"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

from windtunnel.model_server.areas import POLITE, Area
from windtunnel.model_server.arguments import fill
from windtunnel.model_server.arithmetic_words import REFERENCE
from windtunnel.model_server.expressions import find_expressions
from windtunnel.model_server.lexicon import features
from windtunnel.model_server.matching import THRESHOLD, rank
from windtunnel.model_server.names import (
    find_quoted,
    mask_quoted,
)
from windtunnel.model_server.people import recipients
from windtunnel.model_server.repeats import expand
from windtunnel.model_server.roles import role_of
from windtunnel.model_server.told import literal_body, told
from windtunnel.model_server.toolspec import Step, Tool

_WORDS_OF = re.compile(
    r"\bthe (?:translation|meaning|definition|spelling|result|value) (?:of|for) (?:the (?:word|phrase) )?_",
    re.IGNORECASE,
)


def inner_reads(step: Step, tools: Sequence[Tool], today: date, reads: bool) -> list[Step]:
    """What must be found first for "message Bob the weather in Paris"."""
    kinds = {role_of(p, step.tool).kind for p in step.tool.params}
    if not step.tool.writes:
        return _fed_reads(step, kinds, tools, today, reads)
    if step.tool.operation not in ("send", "create") or not kinds & {"body", "title", "amount"}:
        return []
    area = Area(step.text)
    if literal_body(area) is not None and not _WORDS_OF.search(mask_quoted(step.text)):
        return []
    text = step.text
    object_text = _object_of(text, step)
    if not object_text or (
        step.tool.operation == "create"
        and not re.search(
            r"\bthe (?:result|answer|weather|forecast|temperature|sum|product|translation|square root)\b",
            object_text,
        )
    ):
        return []
    if told(Area(text)) and not re.match(r"(?:the|what|how|who|when|where|whether|if)\b", object_text):
        return []
    readers = [tool for tool in tools if not tool.writes]
    if not readers:
        return []
    best = rank(object_text, readers, today)[0]
    if best.score < THRESHOLD + (1.0 if reads else 0.3):
        return []
    inner = Step(object_text, best.tool, (), False)
    filled = fill(best.tool, object_text, (), today)
    return [] if filled.missing or (not filled.arguments and reads) else expand(inner, today)


def _fed_reads(step: Step, kinds: set[str], tools: Sequence[Tool], today: date, reads: bool) -> list[Step]:
    """What must be found first for "translate the latest message of my inbox" or "15% of the temperature
    in Paris"."""
    others = [tool for tool in tools if not tool.writes and tool != step.tool]
    if not others or find_quoted(step.text):
        return []
    if "expression" in kinds:
        refers = [e for e in find_expressions(step.text, follow_on=False) if e.references]
        match = re.search(REFERENCE, step.text[refers[0].start :], re.IGNORECASE) if refers else None
        text = step.text[refers[0].start + match.start() :] if refers and match else ""
        gain = 0.0
    elif kinds & {"body"} and kinds & {"language"}:
        text = re.sub(r"^\W*(?:please\s+)?\w+\s+", "", POLITE.sub("", step.text))
        gain = -0.4
    else:
        return []
    if not re.match(r"(?:the|my|how|what|who|when)\b", text, re.IGNORECASE):
        return []
    best = rank(text, others, today)[0]
    if best.score < THRESHOLD + gain + (1.0 if reads else 0.0) or (
        "@web" in features(best.tool.name + best.tool.description)
        and re.match("the (?:word|phrase|sentence|text|following)", text)
    ):
        return []
    filled = fill(best.tool, text, (), today)
    return (
        []
        if filled.missing or (reads and not filled.arguments)
        else expand(Step(text, best.tool, asked=False), today)
    )


def _object_of(text: str, step: Step) -> str:
    """What is to be sent: "the weather in Paris" of "message Bob the weather in Paris"."""
    bare = POLITE.sub("", text)
    offset = len(text) - len(bare)
    spans = [s for s in recipients(Area(text)) if s.start >= offset]
    object_text = text[offset:]
    if spans:
        first = min(spans, key=lambda s: s.start)
        lead = text[offset : first.start]
        after = text[first.end :]
        object_text = after if len(after.split()) >= 2 else lead
    object_text = re.sub(
        r"^\s*(?:know|about|with|of|a message (?:with|about|containing)|,)\b\s*", "", object_text.strip()
    )
    object_text = re.sub(
        r"^(?:send|message|text|email|forward|mail|share|add|create|put|save|store|note down"
        r"|write)\s+(?:down\s+)?(?:(?:a|an)\s+(?:\w+\s+)?(?:message|text|email|note|sms)\s+(?:with"
        r"|about|containing|of)\s+)?",
        "",
        object_text,
        flags=re.IGNORECASE,
    )
    return re.sub(r"\s+(?:to|for|via|by)\s*$", "", object_text.strip(" .,"))
