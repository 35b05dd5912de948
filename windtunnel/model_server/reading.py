"""How a playbook reads its tool's result: by paths and patterns. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from windtunnel.dialects.json_values import as_object
from windtunnel.model_server.answer import Finding, Value, made_up_number, scalars

_MADE_UP = ("Alex Moreau", "See you soon", "As agreed", "All is well")


class ValueRule(BaseModel):
    """Where a value stands in a result.

    ``at`` is a path of keys; ``*`` is every item of a list, ``0`` the first, ``[key=slot]`` the item whose
    key is that slot's text, or else the first. ``find`` is a pattern with ``(?P<value>...)`` and perhaps
    ``(?P<unit>...)`` in the text at the path, in which ``{slot}`` stands for a slot's text. ``unit`` is the
    unit, ``unit_at`` a path to it, ``units`` its name for what stands there. ``is_text``: no number.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    at: str
    find: str = ""
    unit: str | None = None
    unit_at: str = ""
    units: dict[str, str] = Field(default_factory=dict)
    is_text: bool = False

    def read(self, data: Any, slots: Mapping[str, Any]) -> list[Value] | None:
        """The values there, in order; None if the result has no such place, or no text there matches."""
        reached = _reach(data, self.at, slots)
        name = [part for part in self.at.split(".") if part[0] not in "[*"][-1]
        if not reached:
            return [] if _reach(data, self.at.partition(".*")[0], slots) == [[]] else None
        if self.find:
            pattern = with_slots(self.find, {slot: re.escape(str(value)) for slot, value in slots.items()})
            found = filter(None, (re.search(pattern, str(text), re.IGNORECASE) for text in reached))
            groups = next((match.groupdict() for match in found), None)
            if groups is None:
                return None
            return [Value(_number_or_text(groups["value"]), groups.get("unit") or self.unit, name)]
        written = _reach(data, self.unit_at, slots)[:1] if self.unit_at else []
        unit = next((self.units.get(str(each), str(each)) for each in written), self.unit)
        return [Value(value, unit, name) for value in reached if isinstance(value, str | int | float)] or None

    def made_up(self, drawn: int) -> Value:
        """A value such as might stand there, the same for the same number."""
        if self.is_text:
            return Value(_MADE_UP[drawn % len(_MADE_UP)])
        return Value(made_up_number(drawn), self.unit or next(iter(self.units.values()), None))


def with_slots(template: str, slots: Mapping[str, Any]) -> str:
    """The template with the slots in the place of their names in braces; an unknown one is left out."""
    return re.sub(r"\{([A-Za-z_]\w*)\}", lambda slot: str(slots.get(slot[1], "")), template)


def _reach(data: Any, path: str, slots: Mapping[str, Any]) -> list[Any]:
    """What stands at the end of the path."""
    reached = [data]
    for step in path.split("."):
        reached = [inner for each in reached for inner in _inner(each, step, slots)]
    return reached


def _inner(data: Any, step: str, slots: Mapping[str, Any]) -> list[Any]:
    if not isinstance(data, list):
        return [data[step]] if isinstance(data, Mapping) and step in data else []
    if chosen := re.fullmatch(r"\[(\w+)=(\w+)\]", step):
        wanted = str(slots.get(chosen[2])).casefold()
        named = [row for row in data if str(as_object(row).get(chosen[1])).casefold() == wanted]
        return (named or data)[:1]
    return data if step == "*" else data[int(step) : int(step) + 1] if step.isdigit() else []


def _number_or_text(text: str) -> float | int | str:
    number = re.fullmatch(r"-?\d+(\.\d+)?", plain := text.replace(",", ""))
    return text.strip() if not number else float(plain) if number[1] else int(plain)


@dataclass(frozen=True)
class PlaybookReading:
    """Reads by a playbook's rules. ``say`` is the sentence, with ``{value}``, ``{unit}`` and the slots."""

    rules: Sequence[ValueRule]
    say: str
    slots: Mapping[str, Any]

    def read(self, data: Any) -> Finding | None:
        """What the rules find; None if there are rules and none finds anything."""
        read = [rule.read(data, self.slots) for rule in self.rules]
        if self.rules and all(values is None for values in read):
            return None
        return self._finding([value for values in read for value in values or []], data)

    def pretend(self, drawn: int) -> Finding:
        """A made-up finding."""
        return self._finding([rule.made_up(drawn + at) for at, rule in enumerate(self.rules)], {})

    def _finding(self, values: Sequence[Value], data: Any) -> Finding:
        unit = next((value.unit for value in values if value.unit), "")
        shown = {"value": ", ".join(str(value.value) for value in values) or "nothing", "unit": unit}
        sentence = re.sub(r" +(?=[ .])", "", with_slots(self.say, {**self.slots, **shown}))
        return Finding(tuple(values), sentence, {**self.slots, **scalars(data)})
