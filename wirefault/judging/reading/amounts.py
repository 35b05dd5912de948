"""What a text says of a number that was asked for. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from wirefault.judging.reading.affirmed import status_at
from wirefault.judging.reading.asked import AskedNumber, Fit, fit_of_unit, hit_of_value, is_of_other_topic
from wirefault.judging.reading.cues import NEGATION
from wirefault.judging.reading.dates import days_in
from wirefault.judging.reading.decided import Candidate, decided, preferred
from wirefault.judging.reading.patterns import LazyPattern
from wirefault.judging.reading.quantities import Quantity, Reading, lowered, quantities
from wirefault.judging.reading.reckoning import is_squared, is_uncertainty, operands
from wirefault.judging.reading.units import WORDS, Unit, units_of
from wirefault.judging.reading.verdict import Stated

_TOO_MANY = 200  # quantities of one text: it is no answer to anything
_LIST_GAP = LazyPattern(r"^\s*(?:,|;|,?\s*(?:and|und|et|y|e|or|oder|ou|o|to|bis|à)|-|–|/|±|\+/-)\s*$")
# a count of none, one or two is seldom written as a number
_FEW = LazyPattern(
    r"\b(?:one|single|zero|no|none|both|pair|couple|ein\w*|une?|uno|una|kein\w*|aucun\w*|ningún|ninguno|nessun\w*)\b"
)
_NOTHING = LazyPattern(
    r"\W*(?:n/?a|nan|none|null|nil|unknown|no idea|not (?:available|found|known|applicable)|unavailable",
    r"|undefined|error|tbd|tba|\?+|)\W*",
)
_REFUSED = LazyPattern(
    NEGATION,
    r"|désolé|lo siento|desculpe|lamento|tut mir leid|leider|извините|жаль|scusa|dispiace|przepraszam|helaas",
    r"|抱歉|无法|申し訳|できません|죄송|عذر|آسف",
)
_IN_ODD_UNITS = LazyPattern(r"\s?(?:°\s?(?![cfk])[a-z]|(?:[^\W\d_][\w-]*\s){1,2}units?\b)")
_WORD = LazyPattern(r"[^\W\d_]+")
_ENGLISH = LazyPattern(
    r"\b(?:the|is|are|was|of|to|and|in|it|i|you|not|no|for|that|this|sorry|could|have|there)\b"
)


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
    if len(found) > _TOO_MANY:
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
        for unit in WORDS.get(word[0], ())
    )


def _says_nothing(low: str) -> bool:
    """Whether a text without a number is known to have none: it is empty, a refusal, or plain English."""
    is_data = low.lstrip()[:1] in ("{", "[", "<")
    return is_data or any(p.search(low) for p in (_ENGLISH, _REFUSED)) or bool(_NOTHING.fullmatch(low))
