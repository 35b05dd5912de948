"""Read a text's statement of a number that an oracle asks for. Pure.

Each quantity of the text is a candidate: its unit fits or not, its value is right or not, and its context
affirms it or not. The verdict follows from the candidates that count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Literal

from wirefault.judging.reading import context
from wirefault.judging.reading.context import (
    Affirmation,
    Stated,
    is_background,
    is_preceded,
    is_subsidiary,
    sentence_around,
    status_at,
)
from wirefault.judging.reading.counts import counts_other_than_denied
from wirefault.judging.reading.dates import days_in
from wirefault.judging.reading.languages import LazyPattern, has_foreign_doubt
from wirefault.judging.reading.quantities import (
    Quantity,
    Reading,
    in_unit,
    is_squared,
    is_uncertainty,
    is_unknown_language,
    lowered,
    operands,
    quantities,
    with_parts,
    with_shared_units,
)
from wirefault.judging.reading.roles import states_again
from wirefault.judging.reading.text import close
from wirefault.judging.reading.topics import (
    change_of,
    free_of_charge,
    is_direction,
    is_of_other_topic,
    is_wait,
    with_key_units,
)
from wirefault.judging.reading.units import Unit, converted, scale_between, unit_words, units_of

# dimensions that a number without a unit may have: a count, a share or a price
_PLAIN = frozenset({"share", "duration", "data", "angle", "dimensionless"})
_REASON = LazyPattern(r"\b<reason>\b(?! of\b)")
_COMMA = LazyPattern(r"^\s*,\s*$")
_COARSE = 0.1  # a converted value is not rounded by more than this share: 2 hours are not 90 minutes
_MAX_MENTIONS = 200  # in one text; more is not an answer
_ALL = LazyPattern(r"\b<all_of>\s$")
_FEW = LazyPattern(r"\b<few>\b")
_REFUSED = LazyPattern(r"\b<negation>\b|<refusal>")
_IN_ODD_UNITS = LazyPattern(r"\s?(?:°\s?(?![cfk])[a-z]|(?:[^\W\d_][\w-]*\s){1,2}units?\b)")
_WORD = LazyPattern(r"[^\W\d_]+")
_PLAIN_WORDS = LazyPattern(r"\b<plain>\b")


@dataclass(frozen=True)
class AskedNumber:
    """One number that an oracle asks for."""

    value: int | float
    units: tuple[Unit, ...]  # possible meanings of its unit; empty without a unit
    tolerance: float | None

    @property
    def year_like(self) -> bool:
        return not self.units and isinstance(self.value, int) and 1000 <= self.value < 3000

    @property
    def measured(self) -> bool:
        """Return whether it looks like a measurement without its unit."""
        return self.tolerance is not None or not float(self.value).is_integer()


Fit = Literal["explicit", "bare", "doubtful", "none"]
Hit = Literal["right", "nearly", "wrong"]


def asked_number(value: int | float, unit: str | None, tolerance: float | None) -> AskedNumber:
    """Build the question from an oracle's number."""
    return AskedNumber(value, units_of(unit) if unit else (), tolerance)


def fit_of_unit(wanted: AskedNumber, unit: Unit | None) -> Fit:
    """Return how a unit fits: ``explicit``, ``bare`` (no unit), ``doubtful`` (unknown name) or ``none``."""
    if unit is None:
        return "bare"
    if wanted.units:
        if unit.dimension == "unknown":
            return "doubtful"
        return "explicit" if any(unit.dimension == own.dimension for own in wanted.units) else "none"
    if unit.dimension in _PLAIN or unit.dimension.startswith("currency") or unit.dimension == "unknown":
        return "bare"
    if wanted.measured:
        return "bare"
    return "none" if unit.dimension == "temperature" else "doubtful"


def hit_of_value(wanted: AskedNumber, reading: Reading) -> Hit:
    """Return whether a value is within the tolerance; ``nearly``: outside only because it is rounded."""
    value, unit = reading.value, reading.unit
    own = next((each for each in wanted.units if unit and each.dimension == unit.dimension), None)
    step = reading.step
    if unit is not None and own is not None and unit != own and own.converts and unit.converts:
        value, step = converted(value, unit, own), step * scale_between(unit, own)
        # a value in another unit was rounded after conversion; an explicit tolerance already allows for that
        is_fine = own.dimension == "temperature" or step / 2 <= _COARSE * abs(wanted.value)
        if wanted.tolerance is None and is_fine and abs(value - wanted.value) <= step / 2 * (1 + 1e-9):
            return "right"
    if close(value, wanted.value, wanted.tolerance):
        return "right"
    return "nearly" if abs(value - wanted.value) <= step / 2 * (1 + 1e-9) else "wrong"


def stated_number(
    wanted: Sequence[AskedNumber], text: str, besides: Sequence[AskedNumber] = (), unit: str | None = None
) -> Stated:
    """Read a plain text's statement of a number; each of ``wanted`` is right.

    ``besides``: other numbers that the text may mention. ``unit``: the unit of bare numbers in the text.
    """
    text = with_parts(text, {unit.dimension for each in wanted for unit in each.units})
    low = lowered(text)
    wants_year = any(each.year_like for each in wanted)
    mentions = _mentions(wanted, text, unit)
    if len(mentions) > _MAX_MENTIONS:
        return "unreadable"
    if is_unknown_language(text, ((each.start, each.end) for each in mentions)):
        return _stated_in_foreign(wanted, low, mentions)
    mentions = with_shared_units(low, mentions)
    all_candidates = [_candidate(wanted, low, quantity) for quantity in mentions]
    others = [_candidate(besides, low, quantity) for quantity in mentions] if besides else []
    candidates = [
        each
        for at, each in enumerate(all_candidates)
        if each.fit != "none" and not (others and others[at].right and not each.right)
    ]
    if len(candidates) == 1 and _is_alone(low, candidates[0]):  # as in most reported values
        return "right" if candidates[0].right else "wrong"
    candidates = _without_changes(_without_operands(low, mentions, candidates))
    candidates = sorted([*candidates, *_free(wanted, low)], key=lambda each: each.quantity.start)
    if not candidates:
        few = any(each.value in (0, 1, 2) for each in wanted) and _FEW.search(low)
        in_other_words = few or _names_dimension(wanted, low)
        return "none" if (mentions or _says_nothing(low)) and not in_other_words else "unreadable"
    ends = _ends_around(low, candidates)
    rest = [each for each in candidates if each not in ends]
    verdict = decided(low, preferred(rest, wants_year), wants_year)
    if verdict == "right" and any(each.fit == "explicit" for each in ends):
        # "between 40 and 50 minutes, the shop quotes 45": perhaps no minutes
        verdict = "right" if any(each.right and each.fit == "explicit" for each in rest) else "unreadable"
    wants_none = verdict in ("wrong", "none") and any(each.value == 0 for each in wanted)
    if wants_none and any(is_preceded(_ALL, low, each.quantity.start) for each in candidates):
        return "unreadable"  # "all 52 seats are taken" is none
    return verdict


def _stated_in_foreign(wanted: Sequence[AskedNumber], low: str, mentions: Sequence[Quantity]) -> Stated:
    """Read an unknown language: right if the only fitting number is right, without a word of doubt."""
    fitting = [
        each for each in (_candidate(wanted, low, quantity) for quantity in mentions) if each.fit != "none"
    ]
    is_plain = len(fitting) == 1 and fitting[0].right and fitting[0].fit != "doubtful"
    return "right" if is_plain and not has_foreign_doubt(low) else "unreadable"


def denies_number(wanted: Sequence[AskedNumber], text: str) -> bool:
    """Return whether a plain text has a right number only where it denies it: ``The result is not 36.``"""
    low, mentions = lowered(text), _mentions(wanted, text, None)
    if not mentions or len(mentions) > _MAX_MENTIONS:
        return False
    candidates = [_candidate(wanted, low, quantity) for quantity in mentions]
    right = [each for each in candidates if each.right and each.fit != "none"]
    return bool(right) and all(each.status == "denied" for each in right)


def _mentions(wanted: Sequence[AskedNumber], text: str, unit: str | None) -> list[Quantity]:
    """Return the quantities in a text, with years if a year is asked for."""
    mentions = in_unit(quantities(text), unit)
    if any(each.units for each in wanted):
        mentions = with_key_units(text, mentions)
    if any(each.year_like for each in wanted):
        mentions = sorted([*mentions, *_years(lowered(text))], key=lambda quantity: quantity.start)
    return mentions


def _is_alone(low: str, candidate: Candidate) -> bool:
    quantity = candidate.quantity
    around = low[: quantity.start] + low[quantity.end :]
    return candidate.fit != "doubtful" and not around.strip(" .*\n")


def _years(low: str) -> list[Quantity]:
    """Return the years of the days in a text."""
    days = [day for day in days_in(low) if not day.readings[0].startswith("0000")]
    return [Quantity(day.start, day.end, (Reading(float(day.readings[0][:4]), 1, None),)) for day in days]


@dataclass(frozen=True)
class Candidate:
    """A quantity that may be the answer."""

    quantity: Quantity
    fit: Fit  # of its unit
    right: bool  # its value
    nearly: bool
    status: Affirmation
    is_change: bool = False  # a change, not a level: "fell by 12.5 %"


def _candidate(wanted: Sequence[AskedNumber], low: str, quantity: Quantity) -> Candidate:
    fits = [
        (each, reading, fit_of_unit(each, reading.unit)) for each in wanted for reading in quantity.readings
    ]
    fitting = [fit for fit in fits if fit[2] != "none"]
    order: tuple[Fit, ...] = ("explicit", "bare", "doubtful", "none")
    best: Fit = min((fit for _, _, fit in fits), key=order.index, default="none")
    own = {unit.dimension for each in wanted for unit in each.units}
    names = {unit.name for each in wanted for unit in each.units}
    if best == "bare" and own and is_of_other_topic(own, low, quantity):
        best = "none"
    if best == "bare" and own and _IN_ODD_UNITS.match(low[quantity.end : quantity.end + 60]):
        best = "doubtful"
    if best == "bare" and not own and is_wait(low, quantity):
        best = "doubtful"
    if best == "explicit" and "degree" not in names and is_direction(low, quantity):
        best = "doubtful"
    hits = [hit_of_value(each, reading) for each, reading, _ in fitting]
    candidate = Candidate(
        quantity,
        best,
        right=any(hit == "right" for hit in hits),
        nearly=any(hit == "nearly" for hit in hits),
        status=status_at(low, quantity.start, quantity.end),
    )
    return _as_change(wanted, low, candidate)


def _as_change(wanted: Sequence[AskedNumber], low: str, candidate: Candidate) -> Candidate:
    """Read a change with its sign. Only for a share is it certain that the oracle asks for a change."""
    change = change_of(low, candidate.quantity)
    if change is None:
        return candidate
    readings = candidate.quantity.readings
    signed = [replace(each, value=-abs(each.value)) for each in readings] if change == "down" else readings
    as_stated = any(
        hit_of_value(each, reading) == "right"
        for each in wanted
        for reading in signed
        if fit_of_unit(each, reading.unit) != "none"
    )
    of_share = all(reading.unit and reading.unit.dimension == "share" for reading in readings)
    if as_stated and of_share:
        return replace(candidate, right=True, is_change=True)
    right = as_stated or candidate.right
    is_open = right and candidate.status == "affirmed"
    return replace(candidate, right=right, status="doubtful" if is_open else candidate.status, is_change=True)


def _without_changes(candidates: list[Candidate]) -> list[Candidate]:
    """Drop changes that are not the answer, unless they are all: ``fell by 3 °C to 8.4 °C``."""
    levels = [each for each in candidates if not each.is_change]
    return [each for each in candidates if each.right or not each.is_change] if levels else candidates


def _free(wanted: Sequence[AskedNumber], low: str) -> list[Candidate]:
    """Read "free" as a price of 0, if 0 is asked for."""
    zero = next((each for each in wanted if each.value == 0), None)
    if zero is None:
        return []
    unit = next((each for each in zero.units if each.dimension.startswith("currency")), None)
    if zero.units and unit is None:
        return []
    free: list[Candidate] = []
    for place in free_of_charge(low):
        quantity = Quantity(place.start, place.end, (Reading(0.0, 1.0, unit),))
        status = status_at(low, place.start, place.end)
        if status == "denied" and not unit:
            continue  # "no free seats"
        if status == "affirmed" and not place.is_certain:
            status = "doubtful"
        free.append(Candidate(quantity, "explicit" if unit else "doubtful", True, False, status))
    return free


def _without_operands(low: str, mentions: list[Quantity], candidates: list[Candidate]) -> list[Candidate]:
    """Drop the operands of calculations, unless other numbers are missing."""
    places = operands(low, mentions)
    starts = {mentions[at].start for at in places}
    values = {mentions[at].readings[0].value for at in places}
    rest = [
        each
        for each in candidates
        if (each.quantity.start not in starts or (each.right and is_squared(low, each.quantity)))
        and (each.right or each.quantity.readings[0].value not in values)
        and not is_uncertainty(low, each.quantity)
    ]
    return rest or candidates


def _ends_around(low: str, candidates: list[Candidate]) -> list[Candidate]:
    """Return the ends of ranges around a right value that the text affirms beside them."""
    values = [
        (each, each.quantity.readings[0].value)
        for each in candidates
        if each.right and each.status == "affirmed" and not each.quantity.is_name
    ]
    ends: list[Candidate] = []
    for left, right in pairwise(candidates):
        if context.are_a_range(low, left.quantity.start, left.quantity.end, right.quantity.start):
            least, most = left.quantity.readings[0].value, right.quantity.readings[0].value
            if any(each not in (left, right) and least <= value <= most for each, value in values):
                ends += [left, right]
    return ends


def _names_dimension(wanted: Sequence[AskedNumber], low: str) -> bool:
    """Return whether a text has fitting units without a number before them: ``an hour and a half``."""
    own = {unit.dimension for each in wanted for unit in each.units}
    return any(
        unit.dimension in own
        for word in islice(_WORD.finditer(low), _MAX_MENTIONS)
        if len(word[0]) > 2
        for unit in unit_words().get(word[0], ())
    )


def _says_nothing(low: str) -> bool:
    """Return whether a text certainly has no number: it is empty, data, a refusal or plain English."""
    is_data = low.lstrip()[:1] in ("{", "[", "<")
    return is_data or any(p.search(low) for p in (_PLAIN_WORDS, _REFUSED)) or context.says_nothing(low)


def preferred(candidates: list[Candidate], wants_year: bool) -> list[Candidate]:
    """Select candidates: explicit units before bare numbers, and strong candidates before labels."""
    for fit in ("explicit", "bare"):
        of_fit = [each for each in candidates if each.fit == fit]
        if of_fit:
            candidates = of_fit
            break
    if wants_year:
        years = [each for each in candidates if each.quantity.year_like]
        return years or candidates
    strong = [each for each in candidates if not each.quantity.weak]
    return strong or candidates


def decided(low: str, candidates: list[Candidate], wants_year: bool) -> Stated:
    """Decide the verdict of a text in lower case from its candidates."""
    candidates = _with_open_choices(low, candidates)
    affirmed = [each for each in candidates if each.status == "affirmed"]
    final = [each for each in affirmed if is_preceded(context.FINAL_ANSWER, low, each.quantity.start)]
    if final:
        affirmed = final[-1:]
    retraction = context.last_retraction(low)
    correction = max(context.last_correction(low), retraction)
    corrected = [each for each in affirmed if each.quantity.start >= correction]
    if correction and corrected:
        affirmed = corrected
    elif affirmed and all(each.quantity.end <= retraction for each in affirmed):  # retracted
        replaced = any(
            word[0] in unit_words() for word in islice(_WORD.finditer(low, retraction), _MAX_MENTIONS)
        )
        return "unreadable" if replaced or any(each.right for each in candidates) else "wrong"
    if not affirmed:
        return _of_unaffirmed(low, candidates)
    front = [each for each in affirmed if not is_background(low, each.quantity.start, each.quantity.end)]
    doubtful_unit = any(each.fit == "doubtful" for each in affirmed)
    if not front:
        return "wrong" if context.FAILURE.search(low) else "unreadable"
    verdict = _of_several(low, _foremost(low, front), wants_year)
    if verdict == "wrong" and any(each.right for each in candidates if each.status == "doubtful"):
        return "unreadable"
    return "unreadable" if doubtful_unit else verdict


def _foremost(low: str, front: list[Candidate]) -> list[Candidate]:
    """Drop parts of other values and values mentioned in addition; prefer current ones."""
    own = [each for each in front if not is_subsidiary(low, each.quantity.start, each.quantity.end)]
    own = own or front
    current = [
        each
        for each in own
        if context.clause_has(context.CURRENT, low, each.quantity.start, each.quantity.end)
    ]
    return current or own


def _of_unaffirmed(low: str, candidates: list[Candidate]) -> Stated:
    doubtful = [each.quantity for each in candidates if each.right and each.status == "doubtful"]
    if any(not is_background(low, each.start, each.end) for each in doubtful):
        return "unreadable"
    if doubtful and not context.FAILURE.search(low):
        return "unreadable"
    return "wrong" if any(each.status != "denied" for each in candidates) else "none"


def _of_several(low: str, front: list[Candidate], wants_year: bool) -> Stated:
    """Decide between affirmed candidates. If some are right and some wrong, an announced result decides."""
    right = [each for each in front if each.right]
    rest = [e for e in front if not (e.right or _echoes(low, e) or _is_reason(low, e.quantity))]
    rest = [e for e in rest if not any(states_again(low, own.quantity, e.quantity) for own in right)]
    if not right:
        return "unreadable" if all(each.quantity.weak for each in front) and not wants_year else "wrong"
    answers = [each for each in front if is_preceded(context.ANNOUNCED_ANSWER, low, each.quantity.start)]
    if answers and not answers[-1].right:
        return "wrong"
    announced = [each for each in front if is_preceded(context.CONCLUSION, low, each.quantity.start)]
    if all(each.quantity.is_name or counts_other_than_denied(low, each.quantity) for each in right):
        return "unreadable"
    if not rest or (announced and announced[-1].right) or _are_its_parts(right[0], rest):
        return "right"
    return "unreadable"


def _are_its_parts(whole: Candidate, parts: list[Candidate]) -> bool:
    """Return whether values add up to the value before them: ``42 tickets: 30 bugs and 12 requests``."""
    if len(parts) < 2 or whole.quantity.start > parts[0].quantity.start:
        return False
    if whole.quantity.readings[0].value == len(parts):  # "4 digits: 7, 1, 9, 3"
        return True
    total = sum(each.quantity.readings[0].value for each in parts)
    return any(abs(total - reading.value) <= reading.step / 2 for reading in whole.quantity.readings)


def _echoes(low: str, other: Candidate) -> bool:
    """Return whether a value repeats a right one, rounded: ``8.4 °C (about 8 °C)``."""
    return other.nearly and (
        is_preceded(context.APPROXIMATE, low, other.quantity.start)
        or low[other.quantity.start - 1 : other.quantity.start] == "("
    )


def _is_reason(low: str, quantity: Quantity) -> bool:
    """Return whether a value is part of the reason for the answer: ``42, since 42 × 42 = 1764``."""
    before, _ = sentence_around(low, quantity.start, quantity.end)
    return bool(_REASON.search(before))


def _with_open_choices(low: str, candidates: list[Candidate]) -> list[Candidate]:
    """Lower the status of alternatives and of both ends of a range."""
    status: dict[int, Affirmation] = {}
    for at, (left, right) in enumerate(pairwise(candidates)):
        first, end, start = left.quantity.start, left.quantity.end, right.quantity.start
        if left.status == "denied" or left.is_change:  # from 10 to 12, by 2 to 12
            continue
        if context.are_alternatives(low, end, start) or context.are_a_range(low, first, end, start):
            # a slash may separate two forms of one value, or two columns
            status |= dict.fromkeys((at, at + 1), "doubtful" if "/" in low[end:start] else "offered")
    for at in range(len(candidates) - 2, -1, -1):
        gap = low[candidates[at].quantity.end : candidates[at + 1].quantity.start]
        if at + 1 in status and _COMMA.match(gap):
            status.setdefault(at, status[at + 1])
    if len({candidates[at].right for at in status}) < 2 and not any(candidates[at].nearly for at in status):
        return candidates
    return [_at_most(each, status[at]) if at in status else each for at, each in enumerate(candidates)]


def _at_most(each: Candidate, status: Affirmation) -> Candidate:
    return replace(each, status=status) if each.status == "affirmed" else each
