"""How a step reads its tool's result: a playbook's by paths and patterns, any other as a whole. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from windtunnel.dialects.json_values import as_object
from windtunnel.model_server.answer import Finding, Value, scalars
from windtunnel.model_server.offered import OfferedTool
from windtunnel.model_server.words import stem, stems, words_of

_LONGEST_SENTENCE = 2000
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
        reached = list(_reach(data, self.at.split("."), slots))
        name = [part for part in self.at.split(".") if part[0] not in "[*"][-1]
        if not reached:
            list_at = self.at.partition(".*")[0].split(".")
            return [] if next(_reach(data, list_at, slots), None) == [] else None
        if self.find:
            return self._find(reached, slots, name)
        unit = self._unit(data, slots)
        return [Value(value, unit, name) for value in reached if isinstance(value, str | int | float)] or None

    def _unit(self, data: Any, slots: Mapping[str, Any]) -> str | None:
        if not self.unit_at:
            return self.unit
        written = next(_reach(data, self.unit_at.split("."), slots), None)
        return self.units.get(str(written), str(written)) if written is not None else None

    def _find(self, texts: Sequence[Any], slots: Mapping[str, Any], name: str) -> list[Value] | None:
        pattern = with_slots(self.find, {slot: re.escape(str(value)) for slot, value in slots.items()})
        matches = (re.search(pattern, str(text), re.IGNORECASE) for text in texts)
        groups = next((match.groupdict() for match in matches if match), None)
        if groups is None:
            return None
        return [Value(_number_or_text(groups["value"]), groups.get("unit") or self.unit, name)]


def with_slots(template: str, slots: Mapping[str, Any]) -> str:
    """The template with the slots in the place of their names in braces; an unknown one is left out."""
    return re.sub(r"\{([A-Za-z_]\w*)\}", lambda slot: str(slots.get(slot[1], "")), template)


def _reach(data: Any, path: Sequence[str], slots: Mapping[str, Any]) -> Iterator[Any]:
    if not path:
        yield data
        return
    first, rest = path[0], path[1:]
    inner: list[Any] = []
    if isinstance(data, Mapping):
        inner = [data[first]] if first in data else []
    elif isinstance(data, list) and first == "*":
        inner = data
    elif isinstance(data, list) and first.isdigit():
        inner = data[int(first) : int(first) + 1]
    elif isinstance(data, list) and (chosen := re.fullmatch(r"\[(\w+)=(\w+)\]", first)):
        wanted = str(slots.get(chosen[2])).casefold()
        named = [row for row in data if str(as_object(row).get(chosen[1])).casefold() == wanted]
        inner = (named or data)[:1]
    for item in inner:
        yield from _reach(item, rest, slots)


def _number_or_text(text: str) -> float | int | str:
    plain = text.replace(",", "")
    if re.fullmatch(r"-?\d+", plain):
        return int(plain)
    return float(plain) if re.fullmatch(r"-?\d+\.\d+", plain) else text.strip()


@dataclass(frozen=True)
class PlaybookReading:
    """Reads by a playbook's rules. ``say`` is the sentence, with ``{value}``, ``{unit}`` and the slots."""

    rules: Sequence[ValueRule]
    say: str
    slots: Mapping[str, Any]

    def read(self, data: Any) -> Finding | None:
        read = [rule.read(data, self.slots) for rule in self.rules]
        if self.rules and all(values is None for values in read):
            return None
        values = tuple(value for listed in read for value in listed or [])
        return Finding(values, self._sentence(values), {**self.slots, **scalars(data)})

    def pretend(self, drawn: int) -> Finding:
        values = tuple(self._made_up(rule, drawn + at) for at, rule in enumerate(self.rules))
        return Finding(values, self._sentence(values), self.slots)

    @staticmethod
    def _made_up(rule: ValueRule, drawn: int) -> Value:
        if rule.is_text:
            return Value(_MADE_UP[drawn % len(_MADE_UP)])
        return Value(_made_up_number(drawn), rule.unit or next(iter(rule.units.values()), None))

    def _sentence(self, values: Sequence[Value]) -> str:
        unit = next((value.unit for value in values if value.unit), "")
        shown = {"value": ", ".join(str(value.value) for value in values) or "nothing", "unit": unit}
        return re.sub(r" +(?=[ .])", "", with_slots(self.say, {**self.slots, **shown}))


@dataclass(frozen=True)
class WholeResult:
    """Passes the whole of a result on, if it speaks of what was asked.

    ``unexplained``: stems of words of the prompt that only the result can account for.
    """

    tool: OfferedTool
    prompt: str
    arguments: Mapping[str, Any]
    unexplained: frozenset[str]

    def read(self, data: Any) -> Finding | None:
        shown = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        if not self.unexplained <= {*map(stem, words_of(shown))}:
            return None
        given = ", ".join(f"{name}: {value}" for name, value in self.arguments.items())
        sentence = f"{self.tool.name} ({given}) returned {shown}"[:_LONGEST_SENTENCE]
        values = self._values(data) if self.tool.verb == "read" else ()
        return Finding(values, sentence, {**self.arguments, **scalars(data)})

    def _values(self, data: Any) -> tuple[Value, ...]:
        """What was found under a name of the prompt, or all that there is; else none."""
        if isinstance(data, int | float):
            return (Value(data),)
        facts, asked = scalars(data), stems(self.prompt) - stems(" ".join(self.arguments))
        named = [key for key in facts if asked.issuperset(map(stem, words_of(key)))]
        keys = named if len(named) == 1 else [*facts] if isinstance(data, dict) and len(data) == 1 else []
        return (Value(facts[keys[0]], None, keys[0]),) if keys else ()

    def pretend(self, drawn: int) -> Finding:
        values = (Value(_made_up_number(drawn)),) if self.tool.verb == "read" else ()
        return Finding(values, f"{self.tool.name} returned {_made_up_number(drawn)}", self.arguments)


def _made_up_number(drawn: int) -> float:
    return round(4 + drawn % 240 / 10, 1)
