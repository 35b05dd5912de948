"""The value axis: compare the values of a report, or a prose answer, with the oracle. Pure.

Slots are filled in order. Each gets the first unused reported value of its type (number or text) in a
suitable unit; if a slot has a unit, values with a suitable unit come before values without one. Another value
that may also be the slot's makes the report a hedge: it does not pass, wherever the right value is in the
list. Texts may come in any order, since a text identifies itself; numbers may not.

``wirefault.judging.reading`` reads the values. The default tolerance of a slot is 1e-6 for a whole number,
and 0.01 for any other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

from pydantic_core import from_json

from wirefault.core.plain_data import occurs
from wirefault.history.judged_events import ValueAxis
from wirefault.judging.oracle.slots import AnswerRule, Slot, slot_for
from wirefault.judging.reading.amounts import asked_number, hit_of_value
from wirefault.judging.reading.dates import days_in, times_in
from wirefault.judging.reading.quantities import Quantity, in_unit, lowered, quantities
from wirefault.judging.reading.stated import Stated, denies, stated, stated_in
from wirefault.judging.reading.text import compared_words, is_garbled, plain
from wirefault.judging.reading.units import Unit, units_of

_MAX_SWAPPED = 5  # slots of which all orders are tried
_MAX_WHOLE = 1e15  # a larger float may have lost digits
_MAX_LENGTH = 10_000  # characters of one reported value
_NO_UNIT = frozenset(
    {"", "none", "null", "n/a", "na", "-", "unitless", "number", "count", "text", "string", "no unit"}
)
_SCALED = re.compile(r"(?:thousand|million|billion|hundred|k|tsd|mio|mrd)\b", re.IGNORECASE)
_SHORT_SCALE = re.compile(r"(?<=\d)\s?([kmb])$", re.IGNORECASE)
_SCALE_WORDS = {"k": "thousand", "m": "million", "b": "billion"}
_FENCED = re.compile(r"```\w*\s*(.*?)(?:```|\Z)", re.DOTALL)  # the last one may not be closed


@dataclass(frozen=True)
class Reported:
    """One value of a report: as a text, and as a number with its unit if it has one."""

    text: str
    number: float | None
    unit: str | None
    unit_field: str | None = None  # the report's separate unit
    quantities: tuple[Quantity, ...] = ()
    is_text: bool = False  # more than one quantity


def read_value(entry: Mapping[str, Any]) -> Reported:
    """Read one entry of a report, ``{"value": number or text, "unit": text or None}``."""
    value, unit = entry.get("value"), entry.get("unit")
    unit = unit if isinstance(unit, str) and unit.strip().casefold() not in _NO_UNIT else None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return Reported("", None, unit, unit)  # a list or an object is not a value
    text = value[:_MAX_LENGTH] if isinstance(value, str) else _digits_of(value)
    if unit and _SCALED.match(unit.strip()):  # 4.2 and "thousand euros"
        text, unit = f"{text} {unit}", None
    if unit:  # 3.4M with another unit is not a length
        text = _SHORT_SCALE.sub(lambda scale: f" {_SCALE_WORDS[scale[1].casefold()]}", text)
    readable = plain(text)
    amounts = tuple(in_unit(quantities(readable), unit))
    if not amounts:
        is_text = bool(compared_words(readable)) and not _is_moment(readable)
        return Reported(text, None, unit, unit, is_text=is_text)
    first = amounts[0].readings[0]
    is_text = isinstance(value, str) and not _is_quantity(readable, amounts) and not _is_moment(readable)
    return Reported(text, first.value, first.unit.name if first.unit else None, unit, amounts, is_text)


def _digits_of(value: int | float) -> str:
    """A number as text, 1083.0 as ``1083``; empty if it is too large."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < _MAX_WHOLE else repr(value)
    try:
        return str(value)
    except ValueError:
        return ""


def _is_quantity(text: str, amounts: Sequence[Quantity]) -> bool:
    """Whether the text is only a number, with or without a unit."""
    if len(amounts) != 1:
        return False
    around = text[: amounts[0].start], text[amounts[0].end :]
    return not any(compared_words(part) for part in around)


def _is_moment(text: str) -> bool:
    low = lowered(text.strip())
    return any(moment.end - moment.start == len(low) for moment in (*days_in(low), *times_in(low)))


@dataclass(frozen=True)
class FilledSlot:
    slot: Slot
    reported: Reported | None  # None if no value was left
    matched: int | float | str | None  # the option that the value equals
    stated: Stated = "none"

    @property
    def right(self) -> bool:
        return self.matched is not None


@dataclass(frozen=True)
class ValueJudgement:
    axis: ValueAxis
    slots: tuple[FilledSlot, ...] = ()
    from_sentence: bool = False  # a value missing from the report's list was read from its sentence
    denied: bool = False  # the report's sentence denies one of its right values


def judge_value(
    slots: Sequence[Slot], values: Iterable[Mapping[str, Any]], sentence: str = "", question: str = ""
) -> ValueJudgement:
    """Judge ``Report.values``. ``none`` if no value has the type of any slot.

    Otherwise all slots must be right; ``unreadable`` if unreadable values may be right, or if the
    ``sentence`` of the report denies a right value. Missing values are read from the sentence.
    """
    if not slots:
        return ValueJudgement("not_applicable")
    reported = [read_value(value) for value in values]
    filled = fill(slots, reported, question)
    missing = [at for at, each in enumerate(filled) if _is_missing(each)]
    if missing and sentence.strip():
        filled, read = _with_sentence(filled, missing, sentence, question)
        if read:
            whole_axis = _axis_of({slot.stated for slot in filled}) or "wrong"
            return ValueJudgement(whole_axis, filled, from_sentence=True)
    axis = _axis_of({slot.stated for slot in filled})
    if axis == "right" and any(denies(slot, sentence) for slot in slots):
        return ValueJudgement("unreadable", filled, denied=True)
    if axis is not None:
        return ValueJudgement(axis, filled)
    if any(is_garbled(value.text) for value in reported) or _swapped(slots, reported):
        return ValueJudgement("unreadable", filled)
    any_of_type = any(
        _of_type(slot, value) and _speaks_of(slot, value) for slot in slots for value in reported
    )
    return ValueJudgement("wrong" if any_of_type else "none", filled)


def _axis_of(verdicts: set[Stated]) -> ValueAxis | None:
    """The axis if no value is wrong or missing."""
    if verdicts == {"right"}:
        return "right"
    return "unreadable" if verdicts <= {"right", "unreadable"} else None


def _is_missing(filled: FilledSlot) -> bool:
    return filled.reported is None or filled.stated == "none" or not _speaks_of(filled.slot, filled.reported)


def _with_sentence(
    filled: Sequence[FilledSlot], missing: Sequence[int], sentence: str, question: str
) -> tuple[tuple[FilledSlot, ...], bool]:
    """Fill the slots without a value from a sentence. The second result: whether any was filled."""
    slots = [each.slot for each in filled]
    whole = replace(read_value({"value": sentence}), is_text=True)
    result, read = list(filled), False
    for at in missing:
        others = [other for index, other in enumerate(slots) if index != at]
        verdict = stated_in(slots[at], sentence, None, others, question)
        if verdict == "none" or (verdict == "wrong" and _expects_text(slots[at])):
            continue  # a sentence without the text is not a wrong value
        if verdict == "unreadable" and not _speaks_of(slots[at], whole):
            continue
        if verdict == "right" and _is_used_up(slots, at, whole):
            continue
        read = True
        matched = _matched(slots[at], whole) if verdict == "right" else None
        reported = whole if matched is not None else _only_amount(slots[at], whole)
        result[at] = _in_its_place(FilledSlot(slots[at], reported, matched, verdict), result[:at])
    return tuple(result), read


def _is_used_up(slots: Sequence[Slot], at: int, whole: Reported) -> bool:
    """Whether a sentence has the number less often than slots ask for it."""
    times = sum(slot.options == slots[at].options for slot in slots)
    numbers = [
        asked_number(option, slots[at].unit, slots[at].tolerance)
        for option in slots[at].options
        if not isinstance(option, str)
    ]
    stated_often = sum(
        any(hit_of_value(number, reading) == "right" for number in numbers for reading in quantity.readings)
        for quantity in whole.quantities
    )
    return times > 1 and bool(numbers) and stated_often < times


def _only_amount(slot: Slot, whole: Reported) -> Reported:
    """The one amount of a sentence that may be the slot's; the sentence if there are several."""
    amounts = [
        (reading.value, reading.unit)
        for quantity in whole.quantities
        for reading in quantity.readings[:1]
        if _fits_unit(slot, reading.unit)
    ]
    if len(amounts) != 1:
        return replace(whole, number=None, unit=None)
    value, unit = amounts[0]
    name = unit.name if unit else None
    return Reported(f"{value:g} {name or ''}".strip(), value, name)


def _fits_unit(slot: Slot, unit: Unit | None) -> bool:
    dimensions = {each.dimension for each in units_of(slot.unit)} if slot.unit else set()
    return unit is None or not dimensions or unit.dimension in dimensions


def _swapped(slots: Sequence[Slot], reported: Sequence[Reported]) -> bool:
    """Whether the values are the expected ones in another order; a report does not label its values."""
    if not 1 < len(slots) == len(reported) <= _MAX_SWAPPED:
        return False
    right = [[_stated(slots, at, value) == "right" for value in reported] for at in range(len(slots))]
    return any(all(map(list.__getitem__, right, order)) for order in permutations(range(len(slots))))


def fill(slots: Sequence[Slot], reported: Sequence[Reported], question: str = "") -> tuple[FilledSlot, ...]:
    """Give each slot its value, by the rule above."""
    verdicts = [[_stated(slots, at, value, question) for value in reported] for at in range(len(slots))]
    any_order = sum(_expects_text(slot) for slot in slots) > 1
    free = set(range(len(reported)))
    filled: list[FilledSlot] = []
    for slot, of_slot in zip(slots, verdicts, strict=True):
        chosen = _choice(slot, reported, of_slot, free, any_order)
        if chosen is None:
            filled.append(FilledSlot(slot, None, None))
            continue
        free.discard(chosen)
        matched = _matched(slot, reported[chosen]) if of_slot[chosen] == "right" else None
        filled.append(FilledSlot(slot, reported[chosen], matched, of_slot[chosen]))
    left = sorted(free)
    return tuple(
        _in_its_place(_without_hedge(one, reported, verdicts[at], left), filled[:at])
        for at, one in enumerate(filled)
    )


def _in_its_place(filled: FilledSlot, before: Sequence[FilledSlot]) -> FilledSlot:
    """Several numbers in one text must be in the order of their slots."""
    earlier = [each for each in before if each.reported is filled.reported and each.right]
    if not filled.right or not earlier or _expects_text(filled.slot):
        return filled
    here = _place_in_text(filled)
    if here is not None and all(_place_in_text(each) in range(here) for each in earlier):
        return filled
    return replace(filled, stated="unreadable", matched=None)


def _place_in_text(filled: FilledSlot) -> int | None:
    """The index of the quantity in the text that fills the slot."""
    if filled.reported is None or filled.matched is None or isinstance(filled.matched, str):
        return None
    number = asked_number(filled.matched, filled.slot.unit, filled.slot.tolerance)
    places = (
        at
        for at, quantity in enumerate(filled.reported.quantities)
        if any(hit_of_value(number, reading) == "right" for reading in quantity.readings)
    )
    return next(places, None)


def _stated(slots: Sequence[Slot], at: int, value: Reported, question: str = "") -> Stated:
    if not _of_type(slots[at], value):
        return "none"
    others = [other for index, other in enumerate(slots) if index != at]
    holds_several = value.is_text and len(value.quantities) > 1
    of_text = question if value.is_text and len(slots) == 1 else ""
    return stated_in(slots[at], value.text, value.unit_field, others if holds_several else (), of_text)


def _of_type(slot: Slot, value: Reported) -> bool:
    """Whether a value is of the slot's type. A number is not a text, unless the expected text has digits."""
    texts = [option for option in slot.options if isinstance(option, str)]
    if len(texts) < len(slot.options) and (value.is_text or _speaks_of(slot, value)):
        return True
    if value.is_text:
        return bool(texts)
    return bool(value.text) and any(any(c.isdigit() for c in text) for text in texts)


def _speaks_of(slot: Slot, value: Reported) -> bool:
    """Whether the value has content for the slot: a text without a number has none for a number."""
    has_digits = any(character.isdigit() for character in value.text)
    return bool(value.quantities) or has_digits or any(isinstance(option, str) for option in slot.options)


def _expects_text(slot: Slot) -> bool:
    return all(isinstance(option, str) for option in slot.options)


def _choice(
    slot: Slot, reported: Sequence[Reported], verdicts: Sequence[Stated], free: set[int], any_order: bool
) -> int | None:
    """The index of the slot's value. One text may have the values of several slots."""
    fitting = [at for at, verdict in enumerate(verdicts) if verdict != "none"]
    fitting = [at for at in fitting if _speaks_of(slot, reported[at])] or fitting
    fitting = [at for at in fitting if _names_unit(slot, reported[at])] or fitting
    unused = [at for at in fitting if at in free]
    right = [at for at in unused if verdicts[at] == "right"]
    if any_order and _expects_text(slot) and right:
        return right[0]
    if unused:
        return unused[0]
    return next((at for at in fitting if verdicts[at] == "right" and reported[at].is_text), None)


def _names_unit(slot: Slot, value: Reported) -> bool:
    """Whether the value names a unit of the slot's dimension."""
    dimensions = {unit.dimension for unit in units_of(slot.unit)} if slot.unit else set()
    readings = (reading for quantity in value.quantities for reading in quantity.readings)
    return any(r.unit is not None and r.unit.dimension in dimensions for r in readings)


def _matched(slot: Slot, value: Reported) -> int | float | str:
    """The option that a right value equals."""
    for option in slot.options:
        alone = slot.model_copy(update={"any_of": [option]})
        if stated_in(alone, value.text, value.unit_field) == "right":
            return option
    return slot.options[0]


def _has_other_label(chosen: Reported, other: Reported) -> bool:
    """Whether both have different labels instead of units: ``orders``, ``late orders``."""
    labels = chosen.unit_field, other.unit_field
    if labels[0] is None or labels[1] is None or units_of(labels[0]) or units_of(labels[1]):
        return False
    return compared_words(labels[0]) != compared_words(labels[1])


def _without_hedge(
    filled: FilledSlot, reported: Sequence[Reported], verdicts: Sequence[Stated], left: Sequence[int]
) -> FilledSlot:
    """Reject a right value if another may be the slot's; a wrong value before a right one is unreadable.

    Units distinguish values, so a second value in the same unit is a hedge. A value without a unit may be
    something else that the report mentions.
    """
    if filled.reported is None:
        return filled
    left = [at for at in left if not _has_other_label(filled.reported, reported[at])]
    named = _names_unit(filled.slot, filled.reported)
    of_unit = [at for at in left if not named or _names_unit(filled.slot, reported[at])]
    bare = [at for at in left if at not in of_unit and not any(q.year_like for q in reported[at].quantities)]
    rivals = [verdicts[at] for at in of_unit]
    if filled.right and "wrong" in rivals:
        return replace(filled, stated="wrong" if filled.slot.unit else "unreadable", matched=None)
    if filled.right and any(verdicts[at] == "wrong" for at in bare):
        return replace(filled, stated="unreadable", matched=None)
    no_type = not filled.slot.unit and not _expects_text(filled.slot)
    if filled.stated == "wrong" and "right" in rivals and no_type:
        return replace(filled, stated="unreadable")
    return filled


def judge_sentence(slots: Sequence[Slot], sentence: str, question: str = "") -> ValueJudgement:
    """The value axis of an answer without a report, by the oracle's values."""
    if not slots:
        return ValueJudgement("not_applicable")
    judgement = replace(judge_value(slots, [], sentence, question), from_sentence=False)
    unread = judgement.axis == "none" and any(
        stated(slot, sentence, question) == "unreadable" for slot in slots
    )
    return replace(judgement, axis="unreadable") if unread else judgement


def judge_answer(rule: AnswerRule, answer: str, question: str = "") -> ValueJudgement:
    """The value axis of a prose answer, by the oracle's answer rule."""
    # the readers of patterns and JSON need UTF-8, which cannot encode a lone surrogate
    verdict = _answer_states(rule, answer.encode("utf-8", "replace").decode(), question)
    slots = rule.slots() if verdict == "right" else []
    return ValueJudgement(verdict, tuple(FilledSlot(slot, None, slot.options[0]) for slot in slots))


def _answer_states(rule: AnswerRule, answer: str, question: str) -> Stated:
    if rule.any_of is not None:
        return _any_of(_answer_states(option, answer, question) for option in rule.any_of)
    if rule.all_of is not None:
        return _all_of(_answer_states(each, answer, question) for each in rule.all_of)
    if rule.not_contains is not None or rule.not_matches is not None:
        return "wrong" if rule.violated(answer) else "right"
    if rule.matches is not None:
        return "right" if occurs(rule.matches, answer) else "none"
    if rule.json_object is not None:
        return _states_json(rule.json_object, answer)
    return _all_of(stated(slot, answer, question) for slot in rule.slots())


def _any_of(verdicts: Iterable[Stated]) -> Stated:
    """The best verdict. An unreadable value may be right, so it counts more than a wrong one."""
    results = set(verdicts)
    return next((each for each in ("right", "unreadable", "wrong") if each in results), "none")


def _all_of(verdicts: Iterable[Stated]) -> Stated:
    results = set(verdicts)
    return next((each for each in ("wrong", "none", "unreadable") if each in results), "right")


def _states_json(expected: Mapping[str, Any], answer: str) -> Stated:
    """All objects with any of the keys must match: two different ones are a hedge."""
    objects = [value for value in _json_objects(answer) if expected.keys() & value.keys()]
    if not objects:
        return "none"
    return _all_of(_agrees(expected, value) for value in objects)


def _json_objects(answer: str) -> Iterator[Mapping[str, Any]]:
    """The answer as a JSON object, or the objects in its fenced blocks."""
    for text in (answer, *_FENCED.findall(answer)):
        try:
            value = from_json(text.strip())
        except ValueError:  # not JSON, or nested too deep
            continue
        if isinstance(value, dict):
            yield value


def _agrees(expected: Any, value: Any) -> Stated:
    """Compare a JSON value. Objects may have additional keys; lists may not have additional items."""
    if isinstance(expected, dict):
        if not isinstance(value, dict):
            return "wrong"
        return _all_of(_agrees(one, value[key]) if key in value else "none" for key, one in expected.items())
    if isinstance(expected, list):
        if not isinstance(value, list) or len(value) != len(expected):
            return "wrong"
        return _all_of(map(_agrees, expected, value))
    if expected is None or isinstance(expected, bool) or isinstance(value, bool | None | dict | list):
        return "right" if type(expected) is type(value) and expected == value else "wrong"
    return stated(slot_for(expected), str(value))
