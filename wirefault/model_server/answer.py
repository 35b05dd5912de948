"""What the scripted model plans, finds and decides: steps, calls to make, how the task ended. Pure."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

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
    facts: Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """The end of the task: a text for a person, the values in the order asked, and by key (``{"temp": 8.4}``)
    the facts that the tools returned and were asked."""

    status: Literal["done", "failed", "unsure"]
    text: str
    values: tuple[Value, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PlannedCall:
    """A call of a tool; ``arguments`` fit the tool's schema."""

    name: str
    arguments: Mapping[str, Any]


Decision = tuple[PlannedCall, ...] | Answer  # the calls to make now, all at once, or else the answer


@dataclass(frozen=True)
class Step:
    """One call to make, for the words ``asked`` of the prompt; ``known``: by a playbook, for a tool it knows;
    ``after_all``: only when every earlier step has ended. ``read`` gives what a result says, None where
    that is not what was asked; ``pretend`` makes that up, the same for the same number."""

    asked: str
    call: PlannedCall
    read: Callable[[Any], Finding | None]
    pretend: Callable[[int], Finding]
    writes: bool
    known: bool = False
    after_all: bool = False

    @property
    def refers(self) -> bool:
        """Whether its arguments hold what the reads before it found."""
        return any(RESULTS in str(value) for value in self.call.arguments.values())

    def call_with(self, said: str) -> PlannedCall:
        """The call, with that text where its arguments refer to results."""
        given = self.call.arguments
        texts = {name: text.replace(RESULTS, said) for name, text in given.items() if isinstance(text, str)}
        return PlannedCall(self.call.name, {**given, **texts})


def scalars(data: Any) -> dict[str, Any]:
    """The texts, numbers and booleans of a result by their key, the outermost first; of a list the first."""
    if isinstance(data, list):
        return scalars(data[0]) if data else {}
    items = data.items() if isinstance(data, Mapping) else ()
    nested = [scalars(item) for _, item in items if isinstance(item, Mapping | list)]
    return dict(ChainMap({key: item for key, item in items if isinstance(item, str | int | float)}, *nested))


def made_up_number(drawn: int) -> float:
    """A figure like a tool's, the same for the same number."""
    return round(4 + drawn % 240 / 10, 1)
