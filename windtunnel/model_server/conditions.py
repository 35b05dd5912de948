"""Conditions on earlier results: "if it is below 10 degrees, ..."; "otherwise" turns the last one round."""

from __future__ import annotations

import re
from collections.abc import Sequence

from windtunnel.model_server.findings import Finding, main_list, plain_text
from windtunnel.model_server.lexicon import STOPWORDS, attributes, stem, words
from windtunnel.model_server.numbers import find_numbers

IF = re.compile(
    r"^\W*(?:and\s+|but\s+|then\s+)*(?:only\s+)?(?:if|in case|unless|provided(?: that)?|when it|should it)\b",
    re.IGNORECASE,
)
OTHERWISE = re.compile(r"^\W*(?:and\s+|but\s+)*(?:otherwise|if not|else|or else)\b[\s,]*", re.IGNORECASE)
_OVER = re.compile(
    r"\b(?:above|over|more than|greater than|exceeds?|higher than|warmer than|hotter "
    r"than|larger than|at least|bigger than|longer than|taller than|>=?)\b|>",
    re.IGNORECASE,
)
_UNDER = re.compile(
    r"\b(?:below|under|less than|lower than|fewer than|colder than|cooler than|smaller "
    r"than|at most|cheaper than|shorter than|<=?)\b|<",
    re.IGNORECASE,
)


def split_condition(clause: str) -> tuple[str, str]:
    """A clause's condition and the rest of it: ``("if it rains", "tell Bob")``; empty strings for what is
    absent."""
    if OTHERWISE.match(clause):
        return "otherwise", OTHERWISE.sub("", clause)
    if not IF.match(clause):
        late = re.search(r"\s+(?:only )?if\s+(?=it\b|the\b|there\b|that\b|i\b|they\b)", clause, re.IGNORECASE)
        if late and re.match(
            r"\W*(?:tell|message|send|text|email|add|delete|book|remind|create|schedule|notify|cancel)\b",
            clause,
            re.IGNORECASE,
        ):
            return clause[late.start() :].strip(), clause[: late.start()]
        return "", clause
    comma = re.search(r",\s*(?:then\s+)?|\s+then\s+", clause)
    return (clause[: comma.start()], clause[comma.end() :]) if comma else (clause, "")


def holds(condition: str, past: Sequence[Finding]) -> bool | None:
    """Whether the condition holds in what was found; None if that cannot be told."""
    reads = [finding for finding in past if not finding.writes]
    if not reads:
        return None
    turned = bool(re.search(r"\bunless\b|\bnot\b|n't\b", condition, re.IGNORECASE))
    found = _compared(condition, reads)
    if found is None:
        found = _present(condition, reads)
    if found is None:
        found = _said(condition, reads)
    return found if found is None else found != turned


def _compared(condition: str, reads: Sequence[Finding]) -> bool | None:
    numbers = find_numbers(condition)
    over, under = _OVER.search(condition), _UNDER.search(condition)
    if not numbers or not (over or under):
        return None
    figures = [
        value.value for finding in reads for value in finding.values if isinstance(value.value, int | float)
    ]
    if not figures:
        return None
    return figures[-1] > numbers[0].value if over else figures[-1] < numbers[0].value


def _present(condition: str, reads: Sequence[Finding]) -> bool | None:
    listed = main_list(reads[-1].data)
    if re.match(
        r"\W*(?:and )?if (?:so|yes|there (?:is|are)|it is|it does|that is the case)\W*$",
        condition,
        re.IGNORECASE,
    ):
        answers = [value.value for value in reads[-1].values]
        return bool(listed) if listed is not None else bool(answers) and answers[0] not in ("no", 0)
    if listed is None:
        return None
    if re.search(r"\b(?:free|nothing|empty|no \w+|none)\b", condition, re.IGNORECASE):
        return not listed
    return (
        bool(listed)
        if re.search(r"\b(?:any|anything|something|there (?:is|are)|have|busy)\b", condition, re.IGNORECASE)
        else None
    )


def _said(condition: str, reads: Sequence[Finding]) -> bool | None:
    """Whether a result says one of the condition's words (rain, shipped, available)."""
    text = plain_text(reads[-1].data)
    known = {"if", "it's", "otherwise", "unless", "case", "order", "already", "yet", "still"}
    known |= {word for value in reads[-1].arguments.values() for word in words(str(value))}
    said = {stem(word) for word in words(text)}
    wanted = [
        word
        for word in words(condition)
        if word not in STOPWORDS and word not in known and not word.isdigit()
    ]
    telling = [
        word
        for word in wanted
        if not attributes(word)
        or stem(word) in said
        or word.startswith(("rain", "snow", "sunny", "wind", "cloud"))
    ]
    if not telling:
        return None
    return any(
        stem(word) in said or stem(word)[:4] in {each[:4] for each in said if len(each) > 3}
        for word in telling
    )
