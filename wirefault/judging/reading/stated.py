"""What a text in prose says of one value that was asked for. Pure.

A value counts only where the text affirms it: with a unit that fits, not negated, not corrected later and
not as one of several alternatives. What cannot be read is ``unreadable``, never ``wrong``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from wirefault.judging.reading.verdict import Stated

if TYPE_CHECKING:
    from wirefault.judging.reading.asked import AskedNumber

__all__ = ["AskedValue", "Stated", "stated", "stated_in"]

_BEST_FIRST: tuple[Stated, ...] = ("right", "unreadable", "wrong", "none")
_LONGEST = 100_000  # characters of one text that are read


class AskedValue(Protocol):
    """What is asked of one value, as ``oracle.slots.Slot`` has it: any one of the options is right."""

    @property
    def options(self) -> Sequence[int | float | str]: ...

    @property
    def unit(self) -> str | None: ...

    @property
    def tolerance(self) -> int | float | None: ...


def stated(slot: AskedValue, text: str) -> Stated:
    """What a text says of the slot's value; ``none``: it says nothing of its kind."""
    return stated_in(slot, text, None)


def stated_in(slot: AskedValue, text: str, unit: str | None, besides: Sequence[AskedValue] = ()) -> Stated:
    """As ``stated``; a number without a unit in the text is in ``unit``.

    ``besides``: other slots, whose values the same text may give.
    """
    from wirefault.judging.reading.amounts import stated_number
    from wirefault.judging.reading.phrases import stated_phrase
    from wirefault.judging.reading.text import is_garbled, plain

    seen = plain(text[:_LONGEST])
    texts = [option for option in slot.options if isinstance(option, str)]
    # what a reader does not see may be what is asked for: an address, a piece of markup
    verdicts = [
        stated_phrase(option, seen if plain(option) == option else text[:_LONGEST], unit) for option in texts
    ]
    asked = _numbers(slot)
    if asked:
        others = [number for other in besides for number in _numbers(other)]
        verdicts.append(stated_number(asked, seen, others, unit))
    verdict = best_of(verdicts)
    return "unreadable" if verdict != "right" and is_garbled(text[:_LONGEST]) else verdict


def best_of(verdicts: Iterable[Stated]) -> Stated:
    """Of several options the best counts."""
    return min(verdicts, key=_BEST_FIRST.index, default="none")


def _numbers(slot: AskedValue) -> list[AskedNumber]:
    from wirefault.judging.reading.asked import asked_number

    return [
        asked_number(option, slot.unit, slot.tolerance)
        for option in slot.options
        if not isinstance(option, str)
    ]
