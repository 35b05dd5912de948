"""Flags beside the axes: ``late`` and ``ungrounded``. Pure; none of them changes an outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from wirefault.history.events import ToolTry
from wirefault.judging.evidence.told import Told
from wirefault.judging.oracle.assignment import EffectRow
from wirefault.judging.oracle.reported import Reported
from wirefault.judging.oracle.slots import Slot
from wirefault.judging.oracle.value import FilledSlot
from wirefault.judging.reading.text import bare, close, folded, numbers
from wirefault.judging.reading.units import convert, siblings
from wirefault.wiring.lab import lab_links


def is_late(effect: EffectRow, tries: Iterable[ToolTry]) -> bool:
    """Whether the side effect came after the client had given up.

    By its idempotency key: later than the end of every try that carried it. Without a key that any try
    carried, by time, as well as it can be told: no write on its link was in progress at that moment, and
    one had failed before.
    """
    tries, at, key = list(tries), float(effect.get("at", 0.0)), effect.get("idempotency_key")
    carrying = [tried for tried in tries if key is not None and tried.idempotency_key == key]
    if carrying:
        return all(tried.end < at for tried in carrying)
    link = lab_links().link_of_service(str(effect.get("service")))  # only its services record effects
    writes = [tried for tried in tries if tried.write and tried.link == link]
    in_progress = any(tried.start <= at <= tried.end for tried in writes)
    return not in_progress and any(tried.end < at and tried.error is not None for tried in writes)


def is_ungrounded(slots: Iterable[FilledSlot], told: Told) -> bool:
    """Whether a right value, for which a tool is needed, is in no result; never where not all are known."""
    results = [*(result.text for result in told.results), *told.repeated]
    wanting = [filled for filled in slots if filled.right and filled.slot.grounded]
    return told.whole and any(not any(_holds_option(filled, text) for text in results) for filled in wanting)


def _holds_option(filled: FilledSlot, text: str) -> bool:
    option = filled.matched
    if isinstance(option, str):
        return bare(option) in folded(text)
    expected = option or 0
    return in_any_unit(filled.slot, text, lambda value: close(value, expected, filled.slot.tolerance))


def holds_reported(slot: Slot, reported: Reported, text: str) -> bool:
    """Whether a tool's result holds the value that was reported."""
    if reported.number is None:
        return bool(bare(reported.text)) and bare(reported.text) in folded(text)
    expected = convert(reported.number, reported.unit, slot.unit)
    return in_any_unit(slot, text, lambda value: close(value, expected, slot.tolerance))


def in_any_unit(slot: Slot, text: str, fits: Callable[[float], bool]) -> bool:
    """Whether a number in the text fits, taken in the slot's unit or another of its dimension.

    A tool may answer in kelvin what the user wants in celsius, and a result seldom names its unit.
    """
    units: Sequence[str | None] = siblings(slot.unit) or [None]
    there = list(numbers(text))
    # its own unit comes first, so that the others need seldom be looked up
    return any(fits(convert(number, unit, slot.unit)) for unit in units for number in there)
