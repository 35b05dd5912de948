"""The value axis: reported values, held against the oracle's typed slots. Pure.

Slots are filled in their order, each with the first reported value that is of its type (number or text),
in a compatible unit and not used by a slot before it. That value must match: a right value that stands
behind a wrong one does not count, so that hedging with several candidates does not pass.

Numbers: a text such as ``"11.3"`` or ``"11.3 °C"`` is one; the unit counts as the expected one where the
report names none. Tolerance, where the slot gives none: 1e-6 of a whole number, 0.01 for any other. Texts
are compared case folded, without white space and punctuation around them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from windtunnel.judging.oracle.slots import Slot
from windtunnel.judging.reading.text import bare, close, quantity
from windtunnel.judging.reading.units import compatible, convert

ValueAxis = Literal["right", "wrong", "unreadable", "none", "not_applicable"]


@dataclass(frozen=True)
class Reported:
    """One value of the report: as a text, and as a number with its unit where it is one."""

    text: str
    number: float | None
    unit: str | None


@dataclass(frozen=True)
class FilledSlot:
    """A slot, the reported value that it got (None: there was none) and the option that this matched."""

    slot: Slot
    reported: Reported | None
    matched: int | float | str | None

    @property
    def right(self) -> bool:
        return self.matched is not None


@dataclass(frozen=True)
class ValueJudgement:
    axis: ValueAxis
    slots: tuple[FilledSlot, ...] = ()


def judge_value(slots: Sequence[Slot], values: Iterable[Mapping[str, Any]]) -> ValueJudgement:
    """``values`` as in ``Report.values``. ``none`` if nothing of any slot's type was reported at all.

    Otherwise all slots must be right, or the whole is ``wrong``.
    """
    if not slots:
        return ValueJudgement("not_applicable")
    reported = [read_value(value) for value in values]
    filled = fill(slots, reported)
    if all(slot.right for slot in filled):
        return ValueJudgement("right", filled)
    any_of_type = any(_of_type(slot, value) for slot in slots for value in reported)
    return ValueJudgement("wrong" if any_of_type else "none", filled)


def read_value(entry: Mapping[str, Any]) -> Reported:
    """One entry of a report, ``{"value": number or text, "unit": text or None}``."""
    value, unit = entry.get("value"), entry.get("unit")
    unit = unit if isinstance(unit, str) and unit.strip() else None
    text = str(value) if isinstance(value, int | float | str) else ""  # a list or an object is no value
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return Reported(text, None, unit)
    amount = quantity(text)
    if amount is None:
        return Reported(text, None, unit)
    return Reported(text, amount[0], unit or amount[1])


def fill(slots: Sequence[Slot], reported: Sequence[Reported]) -> tuple[FilledSlot, ...]:
    """Gives each slot its value, by the rule above."""
    free = list(reported)
    filled = []
    for slot in slots:
        fitting = next((value for value in free if _fits(slot, value)), None)
        if fitting is not None:
            free.remove(fitting)
        filled.append(FilledSlot(slot, fitting, _matched(slot, fitting) if fitting else None))
    return tuple(filled)


def _of_type(slot: Slot, value: Reported) -> bool:
    texts = [option for option in slot.options if isinstance(option, str)]
    if value.number is None:
        return bool(texts) and bool(value.text)
    # a number in a report is no text, unless the text that is asked for is a number itself ("1984")
    return len(texts) < len(slot.options) or any(quantity(text) for text in texts)


def _fits(slot: Slot, value: Reported) -> bool:
    return _of_type(slot, value) and (value.number is None or compatible(value.unit, slot.unit))


def _matched(slot: Slot, value: Reported) -> int | float | str | None:
    return next((option for option in slot.options if _is(option, slot, value)), None)


def _is(option: int | float | str, slot: Slot, value: Reported) -> bool:
    if isinstance(option, str):
        amount = quantity(option)
        same_number = amount is not None and value.number is not None and amount[0] == value.number
        return same_number or bare(option) == bare(value.text)
    if value.number is None:
        return False
    return close(convert(value.number, value.unit, slot.unit), option, slot.tolerance)
