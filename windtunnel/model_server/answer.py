"""What the scripted model decides: the calls to make now, or how it ended and what it says of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["done", "failed", "unsure"]


@dataclass(frozen=True)
class Value:
    """One value that was asked for, as a tool's result gave it; ``name`` is the result's key for it."""

    value: float | int | str | bool
    unit: str | None = None
    name: str = ""


@dataclass(frozen=True)
class Answer:
    """The end of the task. ``text`` is for a person, ``values`` are in the order asked.

    ``facts`` has what the tools returned and what they were asked, by key, for forms that ask for more than
    the values: ``{"city": "Paris", "temp": 8.4}``.
    """

    status: Status
    text: str
    values: tuple[Value, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedCall:
    """A call of a tool; ``arguments`` fit the tool's schema."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Decision:
    """Calls to make now, all at once, or else the answer."""

    calls: tuple[PlannedCall, ...] = ()
    answer: Answer | None = None
