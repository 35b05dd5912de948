"""Decide whether a text affirms, denies or leaves open its statement at one place. Pure.

The cues are words of the language files, searched in the clause around the place; a clause ends at a comma,
a "but" and the like. All texts here are in lower case.
"""

from __future__ import annotations

import re
from typing import Literal

from wirefault.judging.reading.languages import LazyPattern

Stated = Literal["right", "wrong", "unreadable", "none"]
# "offered": a candidate that readers do not take for the answer; "doubtful": one that they might
Affirmation = Literal["affirmed", "doubtful", "offered", "denied"]


_AMOUNT_BEGINS = r"[\"'$€£]?$"
_AROUND = 240  # characters of context on each side

SENTENCE_END = LazyPattern(
    r"[!?](?=\s|$|[\"')])|(?<!\bapprox)(?<!\bca)(?<!\bdeg)(?<!\best)(?<!\d)\.(?=\s|$)",
    r"|(?<=\d)\.(?=\s+[^\W\d_]|\s*$)|[\n;。！？]",
)
CLAUSE_END = LazyPattern(r",(?!\d)|[;:()\n]|\s[-–—]+\s|—|\b<clause_end>\b")
NEGATED = LazyPattern(r"\b<negation>\b")
DENIED_BEFORE = LazyPattern(r"\b<negation>\b(?:\s+[^\s,;.]{1,15}){0,3}?\s*[\"'(~]{0,2}$")
# an amount that was withdrawn or replaced
WITHDRAWN_BEFORE = LazyPattern(r"\b<withdrawn>$")
DENIED_AFTER = LazyPattern(
    r"^[\s\"')*]*(?:<copula>(?: <surely>)?\s*(?:n't\b|\b<denial>\b)",
    r"|(?:(?:[a-z]+\s)?<copula>(?: \w+)?\s)?\(?<wrong>\b|\(not (?:correct|right|true))",
    r"(?! <not_really_wrong>)",
)
DISOWNED = LazyPattern("<disowned>")
OFFERED = LazyPattern(r"\b<offered>\b")
GUESS = LazyPattern(r"\b<guess>\b")
OPEN = LazyPattern(r"\b<open>\b|\best\.\s*$")
FAILURE = LazyPattern(r"\b<failure>\b")
BUT = LazyPattern(r"\b<but>\b")
COMPARED = LazyPattern(rf"(?:\b<compared>\b|[<>≥≤±])\s*(?:(?!<copula>\b)\w+\s)?{_AMOUNT_BEGINS}")
BACKGROUND = LazyPattern(r"\b<background>\b")
FORMERLY = LazyPattern(r"\b<formerly>\b")
CURRENT = LazyPattern(r"\b<current>\b")
# an amount of something related to the subject of the sentence
SUBSIDIARY = LazyPattern(r"\b<subsidiary>\b")
FORMER = LazyPattern(r"^\s*<former>\b")
CORRECTION = LazyPattern(r"\b<correction>\b")
# the text retracts its earlier statements
RETRACTION = LazyPattern(r"(?<!\w)<retraction>")
NOTHING = LazyPattern(r"\W*(?:<nothing>|\?+|)\W*")
CONCLUSION = LazyPattern(r"(?:\b<conclusion>\b|[=≈→⇒])[^\d\n.!?;]{0,40}$")
ANNOUNCED_ANSWER = LazyPattern(r"\b<answer_given>(?: \w+)?\s*[\"'$€£]?$")
FINAL_ANSWER = LazyPattern(r"\b<final_answer>\b\W{0,4}(?:is\b)?[^\d\n.!?;]{0,40}$")
APPROXIMATE = LazyPattern(rf"(?:[~≈∼]|\b<approximate>\b\.?)\s*{_AMOUNT_BEGINS}")
BETWEEN_ALTERNATIVES = LazyPattern(r"^[\s)\"'°%,.…?]*(?:<or>|<versus>|/)(?:\s+<or_qualifier>)?[\s(\"'$€£]*$")
SHORT_OR = LazyPattern(r"^[\s)\"'°%]+<short_or>[\s(\"']+$")
WITHIN_A_RANGE = LazyPattern(r"^\s*(?:-|–|—|\.\.\.?|…|~|<to>)\s*$")
RANGE_BEGINS = LazyPattern(r"\b<between>\s*[\"'$€£]?$")
AND = LazyPattern(r"^\s*(?:<and>|&)\s*[\"'$€£]?$")
OR_AFTER_A_LIST = LazyPattern(
    r"^[\"')\]]*(?:\s*,\s*(?!<list_stop>\b)[^\s,.;]+(?: [^\s,.;]+)?){1,4}?,? <or>\b"
)
_JOINED = r"(?:\b(?:<or>|vs\.?)|/)"
OR_BEFORE = LazyPattern(rf"[\w)\"'\]]\s*,?\s*{_JOINED}\s*[\"'(]*$")
OR_AFTER = LazyPattern(rf"^[\"')\].,]*\s*\(?{_JOINED}(?! so\b)(?=\W|\w)")


def sentence_around(text: str, start: int, end: int) -> tuple[str, str]:
    """Return the rest of the sentence around a place: the parts before and after it."""
    before, after = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
    stops = [stop.end() for stop in SENTENCE_END.finditer(before)]
    if stops and not (stops[-1] == len(before) and before.endswith(".")):
        before = before[stops[-1] :]
    stop = SENTENCE_END.search(after)
    return before, after[: stop.end()] if stop else after


def clause_of(before: str, after: str) -> tuple[str, str]:
    """Return the rest of the clause, before and after a place, from the rest of its sentence.

    An introduction of the place (``temperature: 8.4``) belongs to the clause.
    """
    stops = [stop.end() for stop in CLAUSE_END.finditer(before) if _ends_clause(before, stop)]
    stop = next(CLAUSE_END.finditer(after), None)
    return before[stops[-1] :] if stops else before, after[: stop.start()] if stop else after


def _ends_clause(before: str, stop: re.Match[str]) -> bool:
    """Return whether a clause ends there; directly before the place only a comma after a number does."""
    behind = before[stop.end() :].strip(" \"'")
    return bool(behind) or (stop[0] == "," and any(map(str.isdigit, before[: stop.start()])))


def status_at(text: str, start: int, end: int) -> Affirmation:
    """Return the status of the place; a guess, a question, a bound or an ``if`` is not affirmed."""
    sentence = sentence_around(text, start, end)
    if not "".join(sentence).strip(" .*\n"):
        return "affirmed"
    before, after = clause_of(*sentence)
    stops = [stop.end() for stop in CLAUSE_END.finditer(sentence[0])]
    directly_before = sentence[0][stops[-1] :] if stops else sentence[0]
    is_bound = COMPARED.search(before)  # "not after 31 August" denies no value
    if (DENIED_BEFORE.search(directly_before) and not is_bound) or DENIED_AFTER.match(sentence[1]):
        return "denied"
    if WITHDRAWN_BEFORE.search(sentence[0]):
        return "denied"
    if after.rstrip("\"') ").endswith("?") or OFFERED.search(before):
        return "offered"
    bracket = re.match(r"\s*\(([^()]{0,80})\)", sentence[1])
    parts = (before, after, bracket[1] if bracket else "")
    is_question = sentence[1].rstrip("\"') ").endswith("?")
    if is_question or is_bound or NEGATED.search(directly_before):
        return "doubtful"
    if any(OPEN.search(part) or OFFERED.search(part) for part in parts):
        return "doubtful"
    if GUESS.search(sentence[0]):
        return "doubtful"
    failed = FAILURE.search(sentence[0])
    has_failed = failed and not BUT.search(sentence[0][failed.end() :])
    return "doubtful" if has_failed or DISOWNED.search(sentence[1]) else "affirmed"


def is_background(text: str, start: int, end: int) -> bool:
    """Return whether the place is about another time, a forecast, an extreme, or a feeling."""
    sentence = sentence_around(text, start, end)
    bracket = re.search(r"\(([^()]{0,40})$", sentence[0][-41:])
    opening = sentence[0].partition(",")[0]  # "Tomorrow, it will be"
    is_short = len(opening.split()) <= 2 and not any(map(str.isdigit, opening))
    opening = opening if is_short and "," in sentence[0] else ""
    parts = (*clause_of(*sentence), bracket[1] if bracket else "", opening)
    if any(BACKGROUND.search(part) for part in parts):
        return True
    return bool(bracket and FORMER.search(bracket[1]))


def clause_has(pattern: LazyPattern, text: str, start: int, end: int) -> bool:
    """Return whether the pattern occurs in the clause around the place."""
    return any(pattern.search(part) for part in clause_of(*sentence_around(text, start, end)))


def is_subsidiary(text: str, start: int, end: int) -> bool:
    """Return whether the place is a part of the sentence's subject, or an addition to it."""
    return bool(SUBSIDIARY.search(clause_of(*sentence_around(text, start, end))[0].rpartition("(")[2]))


def is_preceded(pattern: LazyPattern, text: str, start: int) -> bool:
    """Return whether the pattern, which ends with ``$``, occurs directly before the place."""
    return bool(pattern.search(text[max(0, start - 60) : start]))


def last_correction(text: str) -> int:
    """Return the end of the last correcting word; 0 if there is none."""
    return max((match.end() for match in CORRECTION.finditer(text)), default=0)


def last_retraction(text: str) -> int:
    """Return the end of the last words that retract the text before them; 0 if there are none."""
    return max((match.end() for match in RETRACTION.finditer(text)), default=0)


def says_nothing(text: str) -> bool:
    """Return whether a text is empty or a placeholder: ``N/A``, ``unknown``."""
    return bool(NOTHING.fullmatch(text))


def are_alternatives(text: str, end: int, start: int) -> bool:
    """Return whether only an "or" separates the end of one place and the start of the next."""
    gap = text[end:start]
    return len(gap) <= 40 and bool(BETWEEN_ALTERNATIVES.match(gap) or SHORT_OR.match(gap))


def are_a_range(text: str, first: int, end: int, start: int) -> bool:
    """Return whether two places are the ends of a range. The first place is from ``first`` to ``end``."""
    gap = text[end:start]
    if len(gap) > 20:
        return False
    opened = RANGE_BEGINS.search(text[max(0, first - 20) : first])
    return bool(WITHIN_A_RANGE.match(gap)) or bool(opened and AND.match(gap))


def offers_alternative(text: str, start: int, end: int) -> bool:
    """Return whether an "or" touches the place on either side."""
    before, after = text[max(0, start - 30) : start], text[end : end + 30]
    in_a_list = OR_AFTER_A_LIST.match(text[end : end + 80])
    return bool(OR_BEFORE.search(before) or OR_AFTER.match(after) or in_a_list)
