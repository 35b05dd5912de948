"""Splits a request into clauses, each of which may call for a tool."""

from __future__ import annotations

import re

from windtunnel.model_server.lexicon import NOUN_VERBS, VERBS
from windtunnel.model_server.names import mask_quoted
from windtunnel.model_server.told import SAYING, TELLING

_MASK = "\x01"
_ABBREVIATION = re.compile(
    r"\b(?:Mr|Mrs|Ms|Dr|St|Prof|vs|e\.g|i\.e|etc|[ap]\.m|No|approx|Inc|Ltd|Jr|Sr)\.$", re.IGNORECASE
)
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|\n+\s*(?:[-*•]|\d+[.)])?\s*")
_PLAIN_VERBS = "|".join(
    sorted(
        VERBS - NOUN_VERBS - {"let", "meaning", "know", "need", "see", "return", "give"},
        key=len,
        reverse=True,
    )
)
_OPEN_VERBS = "|".join(sorted((VERBS & NOUN_VERBS) | {"let", "give", "return"}, key=len, reverse=True))
_OBJECT = (
    r"(?=\s+(?:it|this|that|them|these|those|the|a|an|my|our|his|her|him|me|us|to|out"
    r"|up|down|off|for|in|on|[A-Z\x01\"'“‘0-9]|any|all|both|some|one|another|new)\b|\s+[A-Z\x01\"'“‘0-9@#])"
)
_VERB = (
    rf"(?:please\s+|also\s+|then\s+|finally\s+)*(?:(?:{_PLAIN_VERBS})\b|(?:{_OPEN_VERBS})\b{_OBJECT}"
    rf"|let\s+\w+\s+know\b|let\s+\w+\s+\w+\s+know\b)"
)
_ASK = (
    r"(?:please\s+|also\s+)?(?:what|how|who|when|where|which|is|are|does|do|did|will"
    r"|can you|could you|would you|please|i(?:'d| would) like|i (?:need|want)|tell|let "
    r"me know)\b"
)
_JOINT = re.compile(
    rf"\s*(?:,\s*)?(?:\b(?:and|but)\s+)?\b(?:then|after that|afterwards|after which"
    r"|subsequently)\b[\s,]+(?=\w)"
    rf"|\s*,?\s*\b(?:and|but|&)\s+(?:also\s+|finally\s+|lastly\s+|next\s+|afterwards\s+)?(?={_VERB}|{_ASK})"
    r"|\s*,?\s*\band\s+(?:then\s+)?(?=(?!with\b|of\b|in\b|at\b|for\b|to\b|is\b|that\b"
    r"|from\b)[a-z]+\s+(?:it|them|that|the result|the answer)\b(?!['’]s))"
    rf"|\s*,\s*(?:also\s+|finally\s+|next\s+|otherwise\s+)?(?={_VERB})"
    rf"|\s*,\s+(?=(?:what|how many|how much|who|when|where)\b.*\?)"
    rf"|\s*[;→]\s*"
    rf"|\s*,?\s+(?:so|before)\s+(?=(?:please\s+)?(?:{_PLAIN_VERBS})\b\s+(?:it|the|a|my|them))",
    re.IGNORECASE,
)
_TAIL_END = re.compile(
    rf",?\s+(?:and|then|and then|and also|after that)\s+(?:then\s+|also\s+|after that\s+)?"
    rf"(?=(?:{_PLAIN_VERBS}"
    rf"|message|text|email|tell|book|schedule|search|set|note|record|list|remind)\s+(?:it"
    rf"|the|a|an|me|my|him|her|them|that|this|to|for|up|[A-Z\x01]))|,\s*then\s+",
    re.IGNORECASE,
)


def split(text: str) -> list[str]:
    """The clauses of the request in order. Quoted words and the words of a message stay whole."""
    clauses = []
    for sentence in _sentences(text):
        masked = _masked(sentence)
        start = 0
        for joint in _JOINT.finditer(masked):
            if joint.start() <= start or _in_list(masked, joint):
                continue
            clauses.append(sentence[start : joint.start()])
            start = joint.end()
        clauses.append(sentence[start:])
    clauses = [each for clause in clauses for each in _told_twice(clause)]
    return [clause.strip() for clause in clauses if re.search(r"\w", clause)]


def _told_twice(clause: str) -> list[str]:
    """ "Tell Max that ... and Lea that ..." as two clauses with the same verb."""
    match = re.match(
        r"(.*?\b(?:tell|inform|remind|ask|notify|message|text)\s+)([A-Z]\w+\s+(?:that|to)\b.*?)\s+and\s+([A-Z]\w+\s+(?:that"
        r"|to)\b.*)",
        mask_quoted(clause),
        re.IGNORECASE,
    )
    if not match or not clause[match.start(3)].isupper():
        return [clause]
    return [clause[: match.end(2)], clause[: match.end(1)] + clause[match.start(3) :]]


def _sentences(text: str) -> list[str]:
    masked = "".join(char if char != "_" else _MASK for char in mask_quoted(text))
    found = []
    start = 0
    for gap in _SENTENCE.finditer(masked):
        before = masked[start : gap.start()]
        if (
            _ABBREVIATION.search(before)
            and "\n" not in gap.group()
            and not _opens(before, masked[gap.end() :])
        ):
            continue
        if re.fullmatch(r"\s*\d+[.)]", before):
            start = gap.end()
            continue
        found.append(text[start : gap.start()])
        start = gap.end()
    found.append(text[start:])
    return [re.sub(r"^\s*(?:[-*•]|\d+[.)])\s+", "", sentence) for sentence in found if sentence.strip()]


def _opens(before: str, after: str) -> bool:
    """Whether a sentence begins after "10 a.m.": with a command or a question."""
    return bool(
        re.search(r"[ap]\.m\.$", before, re.IGNORECASE)
        and after[:1].isupper()
        and re.match(rf"{_VERB}|{_ASK}", after, re.IGNORECASE)
    )


def _masked(sentence: str) -> str:
    """The sentence with quotes and told words masked, so that no joint is found in them."""
    masked = "".join(_MASK if char == "_" else char for char in mask_quoted(sentence))
    for marker in (
        SAYING.search(masked),
        TELLING.search(masked),
        re.search(
            r"\blet\s+[\w@.]+(?:\s\w+)?\s+know\s+(?:that\s+)?(?!(?:what|how|when|if|whether)\b)",
            masked,
            re.IGNORECASE,
        ),
    ):
        if marker and masked[marker.end() : marker.end() + 1] not in (_MASK, ""):
            end = _TAIL_END.search(masked, marker.end())
            stop = end.start() if end else len(masked)
            masked = masked[: marker.end()] + "~" * (stop - marker.end()) + masked[stop:]
    return masked


def _in_list(masked: str, joint: re.Match[str]) -> bool:
    """ "tell Bob and email ..." splits; "add milk, book and pen" does not: no object follows there."""
    return bool(re.match(r"\s*(?:,|and)\s*$", masked[joint.end() :]))
