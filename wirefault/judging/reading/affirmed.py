"""Whether a text affirms what it says at one place, denies it, or leaves it open. Pure.

The words that tell are those of ``cues``, looked for in the clause around the place; a clause ends at a
comma, a "but" and the like. Every text here is in lower case.
"""

from __future__ import annotations

import re
from typing import Literal

from wirefault.judging.reading import cues
from wirefault.judging.reading.patterns import LazyPattern

# "offered": as a candidate, which a reader does not take for the answer; "doubtful": a reader might
Affirmation = Literal["affirmed", "doubtful", "offered", "denied"]

_AROUND = 240  # characters of context on each side


def sentence_around(text: str, start: int, end: int) -> tuple[str, str]:
    """What stands before and behind the place, in its sentence."""
    before, after = text[max(0, start - _AROUND) : start], text[end : end + _AROUND]
    stops = [stop.end() for stop in cues.SENTENCE_END.finditer(before)]
    if stops and not (stops[-1] == len(before) and before.endswith(".")):
        before = before[stops[-1] :]
    stop = cues.SENTENCE_END.search(after)
    return before, after[: stop.end()] if stop else after


def clause_of(before: str, after: str) -> tuple[str, str]:
    """Of what stands before and behind a place in its sentence, what belongs to its clause.

    What introduces the place (``temperature: 8.4``) belongs to it.
    """
    stops = [stop.end() for stop in cues.CLAUSE_END.finditer(before) if _parts_clauses(before, stop)]
    stop = next(cues.CLAUSE_END.finditer(after), None)
    return before[stops[-1] :] if stops else before, after[: stop.start()] if stop else after


def _parts_clauses(before: str, stop: re.Match[str]) -> bool:
    """Whether a clause ends there; a comma right before the place ends one only if a number stands before."""
    behind = before[stop.end() :].strip(" \"'")
    return bool(behind) or (stop[0] == "," and any(map(str.isdigit, before[: stop.start()])))


def status_at(text: str, start: int, end: int) -> Affirmation:
    """Whether the place is affirmed, denied, or only offered: as a guess, a question, a bound, an ``if``."""
    sentence = sentence_around(text, start, end)
    if not "".join(sentence).strip(" .*\n"):
        return "affirmed"
    before, after = clause_of(*sentence)
    stops = [stop.end() for stop in cues.CLAUSE_END.finditer(sentence[0])]
    directly_before = sentence[0][stops[-1] :] if stops else sentence[0]
    if cues.DENIED_BEFORE.search(directly_before) or cues.DENIED_AFTER.match(sentence[1]):
        return "denied"
    if cues.WITHDRAWN_BEFORE.search(sentence[0]):
        return "denied"
    if after.rstrip("\"') ").endswith("?") or cues.OFFERED.search(before):
        return "offered"
    bracket = re.match(r"\s*\(([^()]{0,80})\)", sentence[1])
    parts = (before, after, bracket[1] if bracket else "")
    is_question = sentence[1].rstrip("\"') ").endswith("?")
    if is_question or cues.COMPARED.search(before) or cues.NEGATED.search(directly_before):
        return "doubtful"
    if any(cues.OPEN.search(part) or cues.OFFERED.search(part) for part in parts):
        return "doubtful"
    failed = cues.FAILURE_TOLD.search(sentence[0])
    told_failure = failed and not cues.BUT.search(sentence[0][failed.end() :])
    return "doubtful" if told_failure or cues.DISOWNED.search(sentence[1]) else "affirmed"


def is_background(text: str, start: int, end: int) -> bool:
    """Whether the place speaks of another time, a forecast, an extreme, or how it feels."""
    sentence = sentence_around(text, start, end)
    bracket = re.search(r"\(([^()]{0,40})$", sentence[0][-41:])
    opening = sentence[0].partition(",")[0]  # "Tomorrow, it will be"
    is_short = len(opening.split()) <= 2 and not any(map(str.isdigit, opening))
    opening = opening if is_short and "," in sentence[0] else ""
    parts = (*clause_of(*sentence), bracket[1] if bracket else "", opening)
    if any(cues.BACKGROUND.search(part) for part in parts):
        return True
    return bool(bracket and cues.FORMER.search(bracket[1]))


def clause_has(pattern: LazyPattern, text: str, start: int, end: int) -> bool:
    """Whether the pattern occurs in the clause around the place."""
    return any(pattern.search(part) for part in clause_of(*sentence_around(text, start, end)))


def is_subsidiary(text: str, start: int, end: int) -> bool:
    """Whether the place gives a part of, or something beside, what the sentence is about."""
    return bool(cues.SUBSIDIARY.search(clause_of(*sentence_around(text, start, end))[0]))


def stands_before(pattern: LazyPattern, text: str, start: int) -> bool:
    """Whether the pattern, which ends with ``$``, occurs directly before the place."""
    return bool(pattern.search(text[max(0, start - 60) : start]))


def last_correction(text: str) -> int:
    """Where the last word of correction ends; 0 if there is none."""
    return max((match.end() for match in cues.CORRECTION.finditer(text)), default=0)


def are_alternatives(text: str, end: int, start: int) -> bool:
    """Whether nothing but an "or" stands between the end of one place and the start of the next."""
    gap = text[end:start]
    return len(gap) <= 40 and bool(cues.BETWEEN_ALTERNATIVES.match(gap) or cues.SHORT_OR.match(gap))


def are_a_range(text: str, first: int, end: int, start: int) -> bool:
    """Whether two places, the first of which begins at ``first``, are the ends of a range."""
    gap = text[end:start]
    if len(gap) > 20:
        return False
    opened = cues.RANGE_BEGINS.search(text[max(0, first - 20) : first])
    return bool(cues.WITHIN_A_RANGE.match(gap)) or bool(opened and cues.AND.match(gap))


def offers_alternative(text: str, start: int, end: int) -> bool:
    """Whether an "or" touches the place on either side."""
    before, after = text[max(0, start - 30) : start], text[end : end + 30]
    in_a_list = cues.OR_AFTER_A_LIST.match(text[end : end + 80])
    return bool(cues.OR_BEFORE.search(before) or cues.OR_AFTER.match(after) or in_a_list)
