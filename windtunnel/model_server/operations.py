"""What a clause's leading verb asks for: reading, creating, deleting, sending or updating."""

from __future__ import annotations

import re
from functools import lru_cache

from windtunnel.model_server.areas import POLITE
from windtunnel.model_server.expressions import find_expressions
from windtunnel.model_server.lexicon import NOUN_VERBS, WRITES, operations, words
from windtunnel.model_server.names import mask_quoted

_QUESTION = re.compile(
    r"^\W*(?:(?:at|on|in|for|to|from|by|of|with|under) (?=what|which|whom|whose|how))?(?:what"
    r"|which|who|whom|whose|when|where|how|why|is|are|was|were|do|does|did|will|has|have"
    r"|any)\b",
    re.IGNORECASE,
)

_TO_ME = re.compile(
    r"^\W*(?:send|tell|give|show|get|bring|fetch|text|read)\s+me\b(?!\s+(?:a|an)\s)",
    re.IGNORECASE,
)


@lru_cache(maxsize=2048)
def operation_of(text: str) -> str:
    """What the step's leading verb does; empty if it has none, ``read`` for a question."""
    if _TO_ME.match(POLITE.sub("", text)):
        return "read"
    bare = POLITE.sub("", text).strip() or text
    if is_sum(bare):
        return "read"
    if _QUESTION.match(bare):
        return "read"
    if re.match(r"^remind (?!me\b|us\b)", bare, re.IGNORECASE):
        return "send"
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
    if re.match(r"^(?:get|bring|find|fetch) me an?\b", bare, re.IGNORECASE):
        return ""
    found = operations(first[0]) if first else ()
    if not found:
        return ""
    following = words(bare)[1:2]
    if first[0] in NOUN_VERBS and following and following[0] in ("in", "of", "on", "for", "is", "at"):
        return ""
    if {"create", "send"} <= set(found):
        addressed = re.search(r"\b(?:message|e-?mail|text|letter|sms|reply)\b|\bto [A-Z]|@", bare)
        return "send" if addressed or re.match(r"^\w+ [A-Z]", bare) else "create"
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


@lru_cache(maxsize=2048)
def is_sum(text: str) -> bool:
    """Whether the text is nothing but arithmetic ("add 10 to the result")."""
    masked = re.sub(r"\s+(?:up|together|please|now)$", "", mask_quoted(text).strip(" .?!"))
    return any(
        len(masked) - (e.end - e.start) <= 0.25 * len(masked)
        for e in find_expressions(masked, follow_on=True)
    )
