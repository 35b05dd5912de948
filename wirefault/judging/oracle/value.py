"""The value axis: reported values, held against the oracle's typed slots. Pure.

Slots are filled in their order, each with the first reported value that is of its type (number or text), in
a unit that fits, and not used by a slot before it; where a slot has a unit, values that name one that fits
come before those that name none. A further value that could as well have been meant makes the report one
that hedges: it does not pass, wherever in the list the right value stands. Several texts may come in any
order, since each says what it is; numbers may not.

What a value says is read by ``wirefault.judging.reading``. Tolerance, where the slot gives none: 1e-6 of a
whole number, 0.01 for any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any, Literal

from wirefault.judging.oracle.slots import Slot
from wirefault.judging.reading.amounts import asked_number, hit_of_value, in_unit
from wirefault.judging.reading.dates import days_in, times_in
from wirefault.judging.reading.quantities import Quantity, lowered, quantities
from wirefault.judging.reading.stated import Stated, stated_in
from wirefault.judging.reading.text import compared_words, is_garbled, plain
from wirefault.judging.reading.units import units_of

_NO_UNIT = frozenset(
    {"", "none", "null", "n/a", "na", "-", "unitless", "number", "count", "text", "string", "no unit"}
)
_SCALED = re.compile(r"(?:thousand|million|billion|hundred|k|tsd|mio|mrd)\b", re.IGNORECASE)
_SHORT_SCALE = re.compile(r"(?<=\d)\s?([kmb])$", re.IGNORECASE)
_SCALE_WORDS = {"k": "thousand", "m": "million", "b": "billion"}
_LONGEST = 10_000  # characters of one reported value


@dataclass(frozen=True)
class Reported:
    """One value of the report: as a text, and as a number with its unit where it has one.

    ``beside``: the unit as the report gives it apart from the value. ``is_text``: more than one quantity.
    """

    text: str
    number: float | None
    unit: str | None
    beside: str | None = None
    quantities: tuple[Quantity, ...] = ()
    is_text: bool = False


def read_value(entry: Mapping[str, Any]) -> Reported:
    """One entry of a report, ``{"value": number or text, "unit": text or None}``."""
    value, unit = entry.get("value"), entry.get("unit")
    unit = unit if isinstance(unit, str) and unit.strip().casefold() not in _NO_UNIT else None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return Reported("", None, unit, unit)  # a list or an object is no value
    text = value[:_LONGEST] if isinstance(value, str) else _digits_of(value)
    if unit and _SCALED.match(unit.strip()):  # 4.2 and "thousand euros"
        text, unit = f"{text} {unit}", None
    if unit:  # 3.4M with a unit beside it is no length
        text = _SHORT_SCALE.sub(lambda scale: f" {_SCALE_WORDS[scale[1].casefold()]}", text)
    seen = plain(text)
    there = tuple(in_unit(quantities(seen), unit))
    if not there:
        return Reported(text, None, unit, unit, is_text=bool(compared_words(seen)) and not _is_moment(seen))
    first = there[0].readings[0]
    is_text = isinstance(value, str) and not _is_quantity(seen, there) and not _is_moment(seen)
    return Reported(text, first.value, first.unit.name if first.unit else None, unit, there, is_text)


def _digits_of(value: int | float) -> str:
    """A number as ``float`` prints it; one too large to be written out is no answer to anything."""
    try:
        return repr(value) if isinstance(value, float) else str(value)
    except ValueError:
        return ""


def _is_quantity(text: str, there: Sequence[Quantity]) -> bool:
    """Whether a text is nothing but one number, with or without a unit."""
    return (
        len(there) == 1
        and len(compared_words(text[: there[0].start])) + len(compared_words(text[there[0].end :])) == 0
    )


def _is_moment(text: str) -> bool:
    low = lowered(text.strip())
    return any(moment.end - moment.start == len(low) for moment in (*days_in(low), *times_in(low)))


ValueAxis = Literal["right", "wrong", "unreadable", "none", "not_applicable"]

_MOST_SWAPPED = 5  # slots whose orders are all tried


@dataclass(frozen=True)
class FilledSlot:
    """A slot, the reported value that it got (None: there was none) and the option that this matched."""

    slot: Slot
    reported: Reported | None
    matched: int | float | str | None
    stated: Stated = "none"

    @property
    def right(self) -> bool:
        return self.matched is not None


@dataclass(frozen=True)
class ValueJudgement:
    axis: ValueAxis
    slots: tuple[FilledSlot, ...] = ()


def judge_value(slots: Sequence[Slot], values: Iterable[Mapping[str, Any]]) -> ValueJudgement:
    """``values`` as in ``Report.values``. ``none`` if nothing of any slot's type was reported at all.

    Otherwise all slots must be right; ``unreadable`` if what cannot be read might make them so.
    """
    if not slots:
        return ValueJudgement("not_applicable")
    reported = [read_value(value) for value in values]
    filled = fill(slots, reported)
    said = {slot.stated for slot in filled}
    if said == {"right"}:
        return ValueJudgement("right", filled)
    if said <= {"right", "unreadable"}:
        return ValueJudgement("unreadable", filled)
    if any(is_garbled(value.text) for value in reported) or _swapped(slots, reported):
        return ValueJudgement("unreadable", filled)
    any_of_type = any(_of_type(slot, value) and _says(slot, value) for slot in slots for value in reported)
    return ValueJudgement("wrong" if any_of_type else "none", filled)


def _swapped(slots: Sequence[Slot], reported: Sequence[Reported]) -> bool:
    """Whether the values are those asked for, in another order: what is whose, a report does not say."""
    if not 1 < len(slots) == len(reported) <= _MOST_SWAPPED:
        return False
    there = [[_stated(slots, at, value) == "right" for value in reported] for at in range(len(slots))]
    return any(all(map(list.__getitem__, there, order)) for order in permutations(range(len(slots))))


def fill(slots: Sequence[Slot], reported: Sequence[Reported]) -> tuple[FilledSlot, ...]:
    """Gives each slot its value, by the rule above."""
    said = [[_stated(slots, at, value) for value in reported] for at in range(len(slots))]
    any_order = sum(_asks_text(slot) for slot in slots) > 1
    free = set(range(len(reported)))
    filled: list[FilledSlot] = []
    for slot, of_slot in zip(slots, said, strict=True):
        chosen = _choice(slot, reported, of_slot, free, any_order)
        if chosen is None:
            filled.append(FilledSlot(slot, None, None))
            continue
        free.discard(chosen)
        matched = _matched(slot, reported[chosen]) if of_slot[chosen] == "right" else None
        filled.append(FilledSlot(slot, reported[chosen], matched, of_slot[chosen]))
    left = sorted(free)
    return tuple(
        _in_its_place(_held_against(given, reported, said[at], left), filled[:at])
        for at, given in enumerate(filled)
    )


def _in_its_place(filled: FilledSlot, before: Sequence[FilledSlot]) -> FilledSlot:
    """Of several numbers in one text each must stand behind those of the slots before it."""
    earlier = [each for each in before if each.reported is filled.reported and each.right]
    if not filled.right or not earlier or _asks_text(filled.slot):
        return filled
    here = _place_in_text(filled)
    if here is not None and all(_place_in_text(each) in range(here) for each in earlier):
        return filled
    return replace(filled, stated="unreadable", matched=None)


def _place_in_text(filled: FilledSlot) -> int | None:
    """Which of the quantities of its text fills the slot."""
    if filled.reported is None or filled.matched is None or isinstance(filled.matched, str):
        return None
    asked = asked_number(filled.matched, filled.slot.unit, filled.slot.tolerance)
    return next(
        (
            at
            for at, quantity in enumerate(filled.reported.quantities)
            if any(hit_of_value(asked, reading) == "right" for reading in quantity.readings)
        ),
        None,
    )


def _stated(slots: Sequence[Slot], at: int, value: Reported) -> Stated:
    if not _of_type(slots[at], value):
        return "none"
    others = [other for index, other in enumerate(slots) if index != at]
    holds_several = value.is_text and len(value.quantities) > 1
    return stated_in(slots[at], value.text, value.beside, others if holds_several else ())


def _of_type(slot: Slot, value: Reported) -> bool:
    """Whether a value is of the slot's kind; a number is no text, unless the text asked for has digits."""
    texts = [option for option in slot.options if isinstance(option, str)]
    if len(texts) < len(slot.options) and (value.is_text or _says(slot, value)):
        return True
    if value.is_text:
        return bool(texts)
    return bool(value.text) and any(any(c.isdigit() for c in text) for text in texts)


def _says(slot: Slot, value: Reported) -> bool:
    """Whether a value of the slot's type says anything of it: a text without a number gives none."""
    has_digits = any(character.isdigit() for character in value.text)
    return bool(value.quantities) or has_digits or any(isinstance(option, str) for option in slot.options)


def _asks_text(slot: Slot) -> bool:
    return all(isinstance(option, str) for option in slot.options)


def _choice(
    slot: Slot, reported: Sequence[Reported], said: Sequence[Stated], free: set[int], any_order: bool
) -> int | None:
    """The place of the value that the slot gets; one text may give the values of several slots."""
    fitting = [at for at, verdict in enumerate(said) if verdict != "none"]
    fitting = [at for at in fitting if _says(slot, reported[at])] or fitting
    fitting = [at for at in fitting if _names_unit(slot, reported[at])] or fitting
    unused = [at for at in fitting if at in free]
    right = [at for at in unused if said[at] == "right"]
    if any_order and _asks_text(slot) and right:
        return right[0]
    if unused:
        return unused[0]
    return next((at for at in fitting if said[at] == "right" and reported[at].is_text), None)


def _names_unit(slot: Slot, value: Reported) -> bool:
    """Whether the value is in a unit of the slot's dimension, by name."""
    own = {unit.dimension for unit in units_of(slot.unit)} if slot.unit else set()
    return any(r.unit is not None and r.unit.dimension in own for q in value.quantities for r in q.readings)


def _matched(slot: Slot, value: Reported) -> int | float | str:
    """The option that a right value is."""
    for option in slot.options:
        alone = slot.model_copy(update={"any_of": [option]})
        if stated_in(alone, value.text, value.beside) == "right":
            return option
    return slot.options[0]


def _is_called_otherwise(chosen: Reported, other: Reported) -> bool:
    """Whether both have words beside them that are no units and differ: ``orders``, ``late orders``."""
    if chosen.beside is None or other.beside is None or units_of(chosen.beside) or units_of(other.beside):
        return False
    return compared_words(chosen.beside) != compared_words(other.beside)


def _held_against(
    filled: FilledSlot, reported: Sequence[Reported], said: Sequence[Stated], left: Sequence[int]
) -> FilledSlot:
    """A right value is not if another might have been meant; a wrong one is unread if a right one follows.

    What has a unit is told apart by it, so a second value in that unit is a hedge. What has none may be
    something else that the report mentions.
    """
    if filled.reported is None:
        return filled
    left = [at for at in left if not _is_called_otherwise(filled.reported, reported[at])]
    named = _names_unit(filled.slot, filled.reported)
    of_unit = [at for at in left if not named or _names_unit(filled.slot, reported[at])]
    bare = [at for at in left if at not in of_unit and not any(q.year_like for q in reported[at].quantities)]
    rivals = [said[at] for at in of_unit]
    if filled.right and "wrong" in rivals:
        return replace(filled, stated="wrong" if filled.slot.unit else "unreadable", matched=None)
    if filled.right and any(said[at] == "wrong" for at in bare):
        return replace(filled, stated="unreadable", matched=None)
    if (
        filled.stated == "wrong"
        and "right" in rivals
        and not filled.slot.unit
        and not _asks_text(filled.slot)
    ):
        return replace(filled, stated="unreadable")
    return filled
