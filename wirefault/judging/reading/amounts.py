"""What a text says of a number that was asked for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Literal

from wirefault.judging.reading import context
from wirefault.judging.reading.context import (
    Affirmation,
    Stated,
    clause_of,
    is_background,
    is_subsidiary,
    sentence_around,
    stands_before,
    status_at,
)
from wirefault.judging.reading.dates import days_in
from wirefault.judging.reading.languages import LazyPattern
from wirefault.judging.reading.quantities import (
    Quantity,
    Reading,
    is_squared,
    is_uncertainty,
    is_unknown_language,
    lowered,
    operands,
    quantities,
)
from wirefault.judging.reading.text import close
from wirefault.judging.reading.units import Unit, converted, scale_between, unit_words, units_of

# dimensions that a number asked for without a unit may have: it counts, or is a share or a price
_PLAIN = frozenset({"share", "duration", "data", "angle", "dimensionless"})
_TOPICS = tuple(
    (LazyPattern(rf"\b<topic_{dimension}>\b"), dimension)
    for dimension in ("temperature", "share", "speed", "pressure", "length", "other")
)


@dataclass(frozen=True)
class AskedNumber:
    """One number that was asked for. ``units`` are those its unit may stand for; none if it has none."""

    value: int | float
    units: tuple[Unit, ...]
    tolerance: float | None

    @property
    def year_like(self) -> bool:
        return not self.units and isinstance(self.value, int) and 1000 <= self.value < 3000

    @property
    def measured(self) -> bool:
        """Whether it looks like a measurement whose unit nobody wrote down."""
        return self.tolerance is not None or not float(self.value).is_integer()


Fit = Literal["explicit", "bare", "doubtful", "none"]
Hit = Literal["right", "nearly", "wrong"]


def asked_number(value: int | float, unit: str | None, tolerance: float | None) -> AskedNumber:
    """The question as it is read from the oracle."""
    return AskedNumber(value, units_of(unit) if unit else (), tolerance)


def fit_of_unit(asked: AskedNumber, unit: Unit | None) -> Fit:
    """Whether a unit fits: by name, as none at all, perhaps (a name that is not known), or not."""
    if unit is None:
        return "bare"
    if asked.units:
        if unit.dimension == "unknown":
            return "doubtful"
        return "explicit" if any(unit.dimension == own.dimension for own in asked.units) else "none"
    if unit.dimension in _PLAIN or unit.dimension.startswith("currency") or unit.dimension == "unknown":
        return "bare"
    if asked.measured:
        return "bare"
    return "none" if unit.dimension == "temperature" else "doubtful"


def hit_of_value(asked: AskedNumber, reading: Reading) -> Hit:
    """Whether a value is within the tolerance, or would be but for its rounding (``nearly``)."""
    value, unit = reading.value, reading.unit
    own = next((each for each in asked.units if unit and each.dimension == unit.dimension), None)
    step = reading.step
    if unit is not None and own is not None and unit != own and own.converts and unit.converts:
        value, step = converted(value, unit, own), step * scale_between(unit, own)
        # a value of another unit was rounded when it was converted, which a tolerance allows for by itself
        if asked.tolerance is None and abs(value - asked.value) <= step / 2 * (1 + 1e-9):
            return "right"
    if close(value, asked.value, asked.tolerance):
        return "right"
    return "nearly" if abs(value - asked.value) <= step / 2 * (1 + 1e-9) else "wrong"


def is_of_other_topic(asked: Sequence[AskedNumber], low: str, quantity: Quantity) -> bool:
    """Whether a bare number is said to be of another kind: ``humidity 71`` is no temperature."""
    sentence = sentence_around(low, quantity.start, quantity.end)
    before = clause_of(*sentence)[0]
    if not before.strip(" :\"'|"):
        before = sentence[0]
    last = ("", -1)
    for pattern, dimension in _TOPICS:
        for match in pattern.finditer(before):
            last = max(last, (dimension, match.start()), key=lambda topic: topic[1])
    own = {unit.dimension for each in asked for unit in each.units}
    return last[1] >= 0 and last[0] not in own


_REASON = LazyPattern(r"\b<reason>\b(?! of\b)")
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
    final = [each for each in affirmed if stands_before(context.FINAL_ANSWER, low, each.quantity.start)]
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
        return "wrong" if context.FAILURE.search(low) else "unreadable"
    verdict = _of_several(low, _foremost(low, front), year_asked)
    if verdict == "wrong" and any(each.right for each in kept if each.status == "doubtful"):
        return "unreadable"
    return "unreadable" if doubtful_unit else verdict


def _foremost(low: str, front: list[Candidate]) -> list[Candidate]:
    """Without what is a part of another value or goes beside it; of several, what is said to be so now."""
    own = [each for each in front if not is_subsidiary(low, each.quantity.start, each.quantity.end)]
    own = own or front
    current = [
        each
        for each in own
        if context.clause_has(context.CURRENT, low, each.quantity.start, each.quantity.end)
    ]
    return current or own


def _of_unaffirmed(low: str, kept: list[Candidate]) -> Stated:
    doubtful = [each.quantity for each in kept if each.right and each.status == "doubtful"]
    if any(not is_background(low, each.start, each.end) for each in doubtful):
        return "unreadable"
    if doubtful and not context.FAILURE.search(low):
        return "unreadable"
    return "wrong" if any(each.status != "denied" for each in kept) else "none"


def _of_several(low: str, front: list[Candidate], year_asked: bool) -> Stated:
    """All right or all wrong is plain; of some of each the result counts, if one is announced as such."""
    right = [each for each in front if each.right]
    rest = [e for e in front if not (e.right or _echoes(low, e) or _is_reason(low, e.quantity))]
    if not right:
        return "unreadable" if all(each.quantity.weak for each in front) and not year_asked else "wrong"
    given = [each for each in front if stands_before(context.ANSWER_GIVEN, low, each.quantity.start)]
    if given and not given[-1].right:
        return "wrong"
    announced = [each for each in front if stands_before(context.CONCLUSION, low, each.quantity.start)]
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
        stands_before(context.APPROXIMATE, low, other.quantity.start)
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


_TOO_MANY = 200  # quantities of one text: it is no answer to anything
_LIST_GAP = LazyPattern(r"^\s*(?:,|;|,?\s*(?:<and>|<or>|<short_or>|<to>)|-|–|/|±|\+/-)\s*$")
_FEW = LazyPattern(r"\b<few>\b")
_NOTHING = LazyPattern(r"\W*(?:<nothing>|\?+|)\W*")
_REFUSED = LazyPattern(r"\b<negation>\b|<refusal>")
_IN_ODD_UNITS = LazyPattern(r"\s?(?:°\s?(?![cfk])[a-z]|(?:[^\W\d_][\w-]*\s){1,2}units?\b)")
_WORD = LazyPattern(r"[^\W\d_]+")
_PLAIN_WORDS = LazyPattern(r"\b<plain>\b")


def stated_number(
    asked: Sequence[AskedNumber], text: str, besides: Sequence[AskedNumber] = (), unit: str | None = None
) -> Stated:
    """What a plain text says of a number, of which any one of ``asked`` is right.

    ``besides``: other numbers that the text may speak of. ``unit``: what a bare number in it is in.
    """
    low = lowered(text)
    found = in_unit(quantities(text), unit)
    year_asked = any(each.year_like for each in asked)
    if year_asked:
        found = sorted([*found, *_years(low)], key=lambda quantity: quantity.start)
    if len(found) > _TOO_MANY or is_unknown_language(text, ((each.start, each.end) for each in found)):
        return "unreadable"
    found = _with_shared_units(low, found)
    candidates = [_candidate(asked, low, quantity) for quantity in found]
    others = [_candidate(besides, low, quantity) for quantity in found] if besides else []
    kept = [
        each
        for at, each in enumerate(candidates)
        if each.fit != "none" and not (others and others[at].right and not each.right)
    ]
    if len(kept) == 1 and _is_alone(low, kept[0]):  # as most reported values are: there is no more to read
        return "right" if kept[0].right else "wrong"
    kept = _without_operands(low, found, kept)
    if not kept:
        few = any(each.value in (0, 1, 2) for each in asked) and _FEW.search(low)
        in_other_words = few or _names_dimension(asked, low)
        return "none" if (found or _says_nothing(low)) and not in_other_words else "unreadable"
    return decided(low, preferred(kept, year_asked), year_asked)


def _is_alone(low: str, candidate: Candidate) -> bool:
    quantity = candidate.quantity
    around = low[: quantity.start] + low[quantity.end :]
    return candidate.fit != "doubtful" and not around.strip(" .*\n")


def _years(low: str) -> list[Quantity]:
    """The years of the days in a text."""
    days = [day for day in days_in(low) if not day.readings[0].startswith("0000")]
    return [Quantity(day.start, day.end, (Reading(float(day.readings[0][:4]), 1, None),)) for day in days]


def in_unit(found: list[Quantity], unit: str | None) -> list[Quantity]:
    """The quantities, with the unit that stands beside the text in those that have none of their own."""
    if unit is None or not unit.strip():
        return found
    units = units_of(unit) or (Unit(unit.strip().casefold(), "unknown"),)
    return [in_units(quantity, units) for quantity in found]


def in_units(quantity: Quantity, units: Sequence[Unit]) -> Quantity:
    """The quantity, in any of the units where it has none of its own."""
    readings = [
        each
        for reading in quantity.readings
        for each in ([reading] if reading.unit else [replace(reading, unit=unit) for unit in units])
    ]
    return replace(quantity, readings=tuple(readings))


def _candidate(asked: Sequence[AskedNumber], low: str, quantity: Quantity) -> Candidate:
    fits = [
        (each, reading, fit_of_unit(each, reading.unit)) for each in asked for reading in quantity.readings
    ]
    fitting = [fit for fit in fits if fit[2] != "none"]
    order: tuple[Fit, ...] = ("explicit", "bare", "doubtful", "none")
    best: Fit = min((fit for _, _, fit in fits), key=order.index, default="none")
    if best == "bare" and any(each.units for each in asked) and is_of_other_topic(asked, low, quantity):
        best = "none"
    if (
        best == "bare"
        and any(each.units for each in asked)
        and _IN_ODD_UNITS.match(low[quantity.end : quantity.end + 60])
    ):
        best = "doubtful"
    hits = [hit_of_value(each, reading) for each, reading, _ in fitting]
    start, end = quantity.start, quantity.end
    return Candidate(
        quantity,
        best,
        right=any(hit == "right" for hit in hits),
        nearly=any(hit == "nearly" for hit in hits),
        status=status_at(low, start, end),
    )


def _with_shared_units(low: str, found: list[Quantity]) -> list[Quantity]:
    """``8 to 10 °C``: the unit at a list's end is every member's."""
    shared = list(found)
    for at in range(len(shared) - 2, -1, -1):
        left, right = shared[at], shared[at + 1]
        own = any(reading.unit for reading in left.readings)
        units = tuple(reading.unit for reading in right.readings if reading.unit)
        if units and not own and _LIST_GAP.match(low[left.end : right.start]):
            shared[at] = in_units(left, units)
    return shared


def _without_operands(low: str, found: list[Quantity], kept: list[Candidate]) -> list[Candidate]:
    """Without the numbers that are only reckoned with, unless there are no others."""
    places = operands(low, found)
    starts = {found[at].start for at in places}
    values = {found[at].readings[0].value for at in places}
    rest = [
        each
        for each in kept
        if (each.quantity.start not in starts or (each.right and is_squared(low, each.quantity)))
        and (each.right or each.quantity.readings[0].value not in values)
        and not is_uncertainty(low, each.quantity)
    ]
    return rest or kept


def _names_dimension(asked: Sequence[AskedNumber], low: str) -> bool:
    """Whether a text speaks of units of the kind, with no number before them: ``an hour and a half``."""
    own = {unit.dimension for each in asked for unit in each.units}
    return any(
        unit.dimension in own
        for word in islice(_WORD.finditer(low), _TOO_MANY)
        if len(word[0]) > 2
        for unit in unit_words().get(word[0], ())
    )


def _says_nothing(low: str) -> bool:
    """Whether a text without a number is known to have none: it is empty, a refusal, or plain English."""
    is_data = low.lstrip()[:1] in ("{", "[", "<")
    return is_data or any(p.search(low) for p in (_PLAIN_WORDS, _REFUSED)) or bool(_NOTHING.fullmatch(low))
