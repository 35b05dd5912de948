"""What the scripted model plans, finds and decides: steps, calls to make, how the task ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Status = Literal["done", "failed", "unsure"]
RESULTS = "\0results"  # stands in an argument for what earlier steps found


@dataclass(frozen=True)
class Value:
    """One value that was asked for, as a tool's result gave it; ``name`` is the result's key for it."""

    value: float | int | str | bool
    unit: str | None = None
    name: str = ""


@dataclass(frozen=True)
class Finding:
    """What a step gave: the values that were asked for, a sentence for a person, and all that was read."""

    values: tuple[Value, ...]
    sentence: str
    facts: Mapping[str, Any] = field(default_factory=dict)


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


class Reading(Protocol):
    """Reads a tool's result for one step, and makes one up for a persona that pretends."""

    def read(self, data: Any) -> Finding | None:
        """What was asked for; None if the result does not say it."""

    def pretend(self, drawn: int) -> Finding:
        """A made-up finding, the same for the same number."""


@dataclass(frozen=True)
class Step:
    """One call to make, for the words ``asked`` of the prompt; ``known``: by a playbook, for a tool it knows.

    ``after_all``: only when every earlier step has ended. A step whose arguments hold ``RESULTS`` needs
    what the reads before it found.
    """

    asked: str
    tool: str
    arguments: Mapping[str, Any]
    reading: Reading
    writes: bool
    known: bool = False
    after_all: bool = False

    @property
    def refers(self) -> bool:
        return any(isinstance(value, str) and RESULTS in value for value in self.arguments.values())

    def call_with(self, found: Sequence[Finding]) -> PlannedCall:
        """The call, with the sentences of those findings where its arguments refer to results."""
        said = " ".join(finding.sentence for finding in found)
        filled = {name: v.replace(RESULTS, said) for name, v in self.arguments.items() if isinstance(v, str)}
        return PlannedCall(self.tool, {**self.arguments, **filled})


def scalars(data: Any) -> dict[str, Any]:
    """The texts, numbers and booleans of a result by their key, the outermost first; of a list the first."""
    gathered: dict[str, Any] = {}
    waiting = [data]
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, Mapping):
            plain = {str(key): item for key, item in value.items() if isinstance(item, str | int | float)}
            gathered = {**plain, **gathered}
            waiting += [item for item in value.values() if isinstance(item, Mapping | list)]
        elif isinstance(value, list):
            waiting += value[:1]
    return gathered
