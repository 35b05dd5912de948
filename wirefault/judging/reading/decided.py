"""What the candidates of a text come to: which of them count, and whether these are right. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from wirefault.judging.reading import affirmed as context
from wirefault.judging.reading import cues
from wirefault.judging.reading.affirmed import (
    Affirmation,
    is_background,
    is_subsidiary,
    sentence_around,
    stands_before,
)
from wirefault.judging.reading.asked import Fit
from wirefault.judging.reading.patterns import LazyPattern
from wirefault.judging.reading.quantities import Quantity
from wirefault.judging.reading.verdict import Stated

_REASON = LazyPattern(
    r"\b(?:since|because|as(?= \d)|check(?:ing)?|verif\w+|proof",
    r"|weil|denn|car|parce que|porque|perché)\b(?! of\b)",
)
_COMMA = LazyPattern(r"^\s*,\s*$")


@dataclass(frozen=True)
class Candidate:
    """A quantity that may answer: how its unit fits, whether its value does, and whether it is affirmed."""

    quantity: Quantity
    fit: Fit
    right: bool
    nearly: bool
    status: Affirmation


def preferred(kept: list[Candidate], year_asked: bool) -> list[Candidate]:
    """The candidates that count: those in an own unit before bare ones, those that are no label last."""
    for fit in ("explicit", "bare"):
        of_fit = [each for each in kept if each.fit == fit]
        if of_fit:
            kept = of_fit
            break
    if year_asked:
        years = [each for each in kept if each.quantity.year_like]
        return years or kept
    strong = [each for each in kept if not each.quantity.weak]
    return strong or kept


def decided(low: str, kept: list[Candidate], year_asked: bool) -> Stated:
    """The verdict over the candidates of a text, which is in lower case."""
    kept = _with_open_choices(low, kept)
    affirmed = [each for each in kept if each.status == "affirmed"]
    final = [each for each in affirmed if stands_before(cues.FINAL_ANSWER, low, each.quantity.start)]
    if final:
        affirmed = final[-1:]
    correction = context.last_correction(low)
    corrected = [each for each in affirmed if each.quantity.start >= correction]
    if correction and corrected:
        affirmed = corrected
    if not affirmed:
        return _of_unaffirmed(low, kept)
    front = [each for each in affirmed if not is_background(low, each.quantity.start, each.quantity.end)]
    doubtful_unit = any(each.fit == "doubtful" for each in affirmed)
    if not front:
        return "wrong" if cues.FAILURE_TOLD.search(low) else "unreadable"
    verdict = _of_several(low, _foremost(low, front), year_asked)
    if verdict == "wrong" and any(each.right for each in kept if each.status == "doubtful"):
        return "unreadable"
    return "unreadable" if doubtful_unit else verdict


def _foremost(low: str, front: list[Candidate]) -> list[Candidate]:
    """Without what is a part of another value or goes beside it; of several, what is said to be so now."""
    own = [each for each in front if not is_subsidiary(low, each.quantity.start, each.quantity.end)]
    own = own or front
    current = [
        each for each in own if context.clause_has(cues.CURRENT, low, each.quantity.start, each.quantity.end)
    ]
    return current or own


def _of_unaffirmed(low: str, kept: list[Candidate]) -> Stated:
    doubtful = [each.quantity for each in kept if each.right and each.status == "doubtful"]
    if any(not is_background(low, each.start, each.end) for each in doubtful):
        return "unreadable"
    if doubtful and not cues.FAILURE_TOLD.search(low):
        return "unreadable"
    return "wrong" if any(each.status != "denied" for each in kept) else "none"


def _of_several(low: str, front: list[Candidate], year_asked: bool) -> Stated:
    """All right or all wrong is plain; of some of each the result counts, if one is announced as such."""
    right = [each for each in front if each.right]
    rest = [e for e in front if not (e.right or _echoes(low, e) or _is_reason(low, e.quantity))]
    if not right:
        return "unreadable" if all(each.quantity.weak for each in front) and not year_asked else "wrong"
    given = [each for each in front if stands_before(cues.ANSWER_GIVEN, low, each.quantity.start)]
    if given and not given[-1].right:
        return "wrong"
    announced = [each for each in front if stands_before(cues.CONCLUSION, low, each.quantity.start)]
    if all(each.quantity.is_name for each in right):
        return "unreadable"
    if not rest or (announced and announced[-1].right) or _are_its_parts(right[0], rest):
        return "right"
    return "unreadable"


def _are_its_parts(whole: Candidate, parts: list[Candidate]) -> bool:
    """Whether values add up to the one before them: ``42 tickets: 30 bugs and 12 requests``."""
    if len(parts) < 2 or whole.quantity.start > parts[0].quantity.start:
        return False
    total = sum(each.quantity.readings[0].value for each in parts)
    return any(abs(total - reading.value) <= reading.step / 2 for reading in whole.quantity.readings)


def _echoes(low: str, other: Candidate) -> bool:
    """Whether a value is a right one once more, rounded: ``8.4 °C (about 8 °C)``."""
    return other.nearly and (
        stands_before(cues.APPROXIMATE, low, other.quantity.start)
        or low[other.quantity.start - 1 : other.quantity.start] == "("
    )


def _is_reason(low: str, quantity: Quantity) -> bool:
    """Whether a value is part of why the answer is what it is: ``42, since 42 × 42 = 1764``."""
    before, _ = sentence_around(low, quantity.start, quantity.end)
    return bool(_REASON.search(before))


def _with_open_choices(low: str, kept: list[Candidate]) -> list[Candidate]:
    """Those that are alternatives of one another, or the ends of a range, are doubtful."""
    status: dict[int, Affirmation] = {}
    for at, (left, right) in enumerate(pairwise(kept)):
        first, end, start = left.quantity.start, left.quantity.end, right.quantity.start
        if left.status == "denied":  # from 10 to 12
            continue
        if context.are_alternatives(low, end, start) or context.are_a_range(low, first, end, start):
            # a slash may stand between two forms of one value, or two columns
            status |= dict.fromkeys((at, at + 1), "doubtful" if "/" in low[end:start] else "offered")
    for at in range(len(kept) - 2, -1, -1):
        gap = low[kept[at].quantity.end : kept[at + 1].quantity.start]
        if at + 1 in status and _COMMA.match(gap):
            status.setdefault(at, status[at + 1])
    if len({kept[at].right for at in status}) < 2 and not any(kept[at].nearly for at in status):
        return kept
    return [_at_most(each, status[at]) if at in status else each for at, each in enumerate(kept)]


def _at_most(each: Candidate, status: Affirmation) -> Candidate:
    return replace(each, status=status) if each.status == "affirmed" else each
