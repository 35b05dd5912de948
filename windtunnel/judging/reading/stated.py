"""What a text in prose says of one value that was asked for. Pure.

A value counts only where the text affirms it: with a unit that fits, not negated, not corrected later and
not as one of several alternatives. What cannot be read is ``unreadable``, never ``wrong``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from windtunnel.judging.reading.text import bare, close, folded, numbers

Stated = Literal["right", "wrong", "unreadable", "none"]


class AskedValue(Protocol):
    """What is asked of one value, as ``oracle.slots.Slot`` has it."""

    @property
    def options(self) -> Sequence[int | float | str]: ...

    @property
    def unit(self) -> str | None: ...

    @property
    def tolerance(self) -> int | float | None: ...


def stated(slot: AskedValue, text: str) -> Stated:
    """What a text says of the slot's value; ``none``: it says nothing of its kind."""
    for option in slot.options:
        if isinstance(option, str):
            if bare(option) in folded(text):
                return "right"
        elif any(close(value, option, slot.tolerance) for value in numbers(text, slot.unit)):
            return "right"
    return "wrong" if text.strip() else "none"
