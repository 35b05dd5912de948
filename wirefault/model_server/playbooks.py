"""Playbooks: sentences with slots, the calls that they ask for, and the values to read from the results.

A prompt is understood if all of it is sentences of playbooks, joined by "and", "then" or punctuation.
docs/scripted-model.md explains the file. A plan is a list of ``Step``; it ends with an ``Answer``.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from wirefault.dialects.json_values import as_list, as_object
from wirefault.model_server.language import PATTERNS, SLOTS, UNREADABLE, bare, read_slot
from wirefault.wiring.spec_file import read_spec_file

SHIPPED = Path(__file__).with_name("playbooks.yaml")
_MAX_PROMPT = 600  # characters
_MADE_UP = ("Alex Moreau", "See you soon", "As agreed", "All is well")
_SIGNS = {"[": "(?:", "]": ")?", "(": "(?:"}
RESULTS = "\0results"  # in an argument: placeholder for the findings of earlier steps


@dataclass(frozen=True)
class Value:
    """One requested value, from a tool's result."""

    value: float | int | str | bool
    unit: str | None = None
    name: str = ""  # its key in the result


@dataclass(frozen=True)
class Finding:
    """The outcome of a step."""

    values: tuple[Value, ...]  # the requested ones
    sentence: str  # for a person
    facts: Mapping[str, Any]  # all data of the result by key


@dataclass(frozen=True)
class Answer:
    """The end of the task."""

    status: Literal["done", "failed", "unsure"]
    text: str  # for a person
    values: tuple[Value, ...] = ()  # in the order of the request
    facts: Mapping[str, Any] = field(default_factory=dict)  # tool arguments and results: {"temp": 8.4}


@dataclass(frozen=True)
class PlannedCall:
    """A call of a tool; its arguments fit the tool's schema."""

    name: str
    arguments: Mapping[str, Any]


Decision = tuple[PlannedCall, ...] | Answer  # the calls to make now, in parallel, or the answer


@dataclass(frozen=True)
class Step:
    """One call to make."""

    clause: str  # the words of the prompt that ask for it
    call: PlannedCall
    read: Callable[[Any], Finding | None]  # None: the result does not answer the request
    pretend: Callable[[int], Finding]  # makes a finding up, the same for the same number
    writes: bool
    known: bool = False  # planned by a playbook, which knows the tool
    after_all: bool = False  # only when every earlier step has ended

    @property
    def refers(self) -> bool:
        """Whether its arguments contain findings of the reads before it."""
        return any(RESULTS in str(value) for value in self.call.arguments.values())

    def call_with(self, findings: str) -> PlannedCall:
        """Return the call, with these findings in its arguments."""
        arguments = {
            name: value.replace(RESULTS, findings) if isinstance(value, str) else value
            for name, value in self.call.arguments.items()
        }
        return PlannedCall(self.call.name, arguments)


def scalars(data: Any) -> dict[str, Any]:
    """Collect the scalars of a result by key, the outermost first; from a list, those of its first item."""
    if isinstance(data, list):
        return scalars(data[0]) if data else {}
    items = data.items() if isinstance(data, Mapping) else ()
    nested = [scalars(item) for _, item in items if isinstance(item, Mapping | list)]
    return dict(ChainMap({key: item for key, item in items if isinstance(item, str | int | float)}, *nested))


def made_up_number(drawn: int) -> float:
    """Return a plausible figure, the same for the same number."""
    return round(4 + drawn % 240 / 10, 1)


def sentence_pattern(sentence: str) -> re.Pattern[str]:
    """Compile a sentence with ``{slot}`` or ``{slot:kind}``, ``[optional]``, ``(one|other)``.

    Raises ``ValueError`` for an unknown kind and for unbalanced brackets.
    """
    pattern = ""
    parts = r"\{(\w+)(?::(\w+))?\}|([\[\]()|])|([^{}\[\]()|]+)"
    for slot, named, sign, literal in re.findall(parts, sentence):
        kind = named or (slot if slot in SLOTS else "text")
        if kind not in SLOTS:
            raise ValueError(f"{sentence!r}: unknown kind of slot {kind!r}; valid: {', '.join(SLOTS)}")
        words = re.escape(literal).replace("'", "['’]")
        pattern += f"(?P<{slot}__{kind}>{SLOTS[kind]})" if slot else words + _SIGNS.get(sign, sign)
    try:
        return re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise ValueError(f"{sentence!r}: {error}") from None


class ValueRule(BaseModel):
    """The place of a value in a result.

    A path is keys joined by dots; ``*`` is every item of a list, ``0`` the first, ``[key=slot]`` the item
    whose key has that slot's text, else the first.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    at: str  # path
    find: str = ""  # pattern with (?P<value>...), perhaps (?P<unit>...); {slot} becomes the slot's text
    unit: str | None = None
    unit_at: str = ""  # path to the unit
    units: dict[str, str] = Field(default_factory=dict)  # unit names by the text at unit_at
    is_text: bool = False  # not a number

    def read(self, data: Any, slots: Mapping[str, Any]) -> list[Value] | None:
        """Return the values, in order; None if the result has no such place or its text does not match."""
        reached = _reach(data, self.at, slots)
        name = [part for part in self.at.split(".") if part[0] not in "[*"][-1]
        if not reached:
            return [] if _reach(data, self.at.partition(".*")[0], slots) == [[]] else None
        if self.find:
            pattern = with_slots(self.find, {slot: re.escape(str(value)) for slot, value in slots.items()})
            matches = filter(None, (re.search(pattern, str(text), re.IGNORECASE) for text in reached))
            named = [match.groupdict() for match in matches][:1]
            return [Value(_number(n["value"]), n.get("unit") or self.unit, name) for n in named] or None
        written = _reach(data, self.unit_at, slots)[:1] if self.unit_at else []
        unit = next((self.units.get(str(each), str(each)) for each in written), self.unit)
        return [Value(value, unit, name) for value in reached if isinstance(value, str | int | float)] or None

    def made_up(self, drawn: int) -> Value:
        """Make up a plausible value, the same for the same number."""
        if self.is_text:
            return Value(_MADE_UP[drawn % len(_MADE_UP)])
        return Value(made_up_number(drawn), self.unit or next(iter(self.units.values()), None))


def with_slots(template: str, slots: Mapping[str, Any]) -> str:
    """Fill the slots of a template (``{name}``); unknown ones become empty."""
    return re.sub(r"\{([A-Za-z_]\w*)\}", lambda slot: str(slots.get(slot[1], "")), template)


def _reach(data: Any, path: str, slots: Mapping[str, Any]) -> list[Any]:
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


def _number(text: str) -> float | int | str:
    number = re.fullmatch(r"-?\d+(\.\d+)?", plain := text.replace(",", ""))
    return text.strip() if not number else float(plain) if number[1] else int(plain)


@dataclass(frozen=True)
class Remembered:
    """A step of an earlier turn that succeeded: its call and its finding."""

    call: PlannedCall
    finding: Finding

    @property
    def slots(self) -> dict[str, Any]:
        """Arguments and facts by name, and its sentence as ``earlier``."""
        return {**self.call.arguments, **self.finding.facts, "earlier": self.finding.sentence}


class After(BaseModel):
    """The earlier step that a follow-up refers to: the latest call of the tool, if it has these facts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    call: str
    where: dict[str, str] = Field(default_factory=dict)  # texts of facts by key

    def latest(self, memory: Sequence[Remembered]) -> Remembered | None:
        """Return the latest call of the tool; None if there is none, or it has other facts."""
        latest = next((step for step in reversed(memory) if step.call.name == self.call), None)
        facts = {name: str(fact) for name, fact in latest.finding.facts.items()} if latest else {}
        return latest if self.where.items() <= facts.items() else None


class Playbook(BaseModel):
    """One kind of request."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ask: list[Annotated[re.Pattern[str], BeforeValidator(sentence_pattern)]] = Field(min_length=1)
    call: str  # the tool; empty for small talk
    after: After | None = None  # for a follow-up, which takes further slots from an earlier step
    arguments: dict[str, str] = Field(default_factory=dict, alias="with")
    writes: bool = False
    values: list[ValueRule] = Field(default_factory=list)
    say: str = ""

    def steps(self, slots: Mapping[str, Any], clause: str, after_all: bool) -> Iterator[Step]:
        """Yield the step for these slots; one for each item of a slot with a list."""
        several = next((name for name, value in slots.items() if isinstance(value, list)), None)
        for variant in [{**slots, several: item} for item in slots[several]] if several else [slots]:
            marked = {**variant, "results": RESULTS}
            arguments = {name: with_slots(value, marked) for name, value in self.arguments.items()}
            call, read = PlannedCall(self.call, arguments), partial(self._read, variant)
            yield Step(clause, call, read, partial(self._pretend, variant), self.writes, True, after_all)

    def _read(self, slots: Mapping[str, Any], data: Any) -> Finding | None:
        read = [rule.read(data, slots) for rule in self.values]
        if read and all(values is None for values in read):
            return None
        return self._finding(slots, [value for values in read for value in values or []], data)

    def _pretend(self, slots: Mapping[str, Any], drawn: int) -> Finding:
        return self._finding(slots, [rule.made_up(drawn + at) for at, rule in enumerate(self.values)], {})

    def _finding(self, slots: Mapping[str, Any], values: Sequence[Value], data: Any) -> Finding:
        unit = next((value.unit for value in values if value.unit), "")
        result = {"value": ", ".join(str(value.value) for value in values) or "nothing", "unit": unit}
        sentence = re.sub(r" +(?=[ .])", "", with_slots(self.say, {**slots, **result}))
        return Finding(tuple(values), sentence, {**slots, **scalars(data)})


class Playbooks(BaseModel):
    """A file of playbooks. ``languages``: language codes by name in lower case."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    languages: dict[str, str] = Field(default_factory=dict)
    playbooks: list[Playbook] = Field(default_factory=list)

    def reply_to(self, prompt: str) -> str:
        """Return the reply to a prompt that needs no tool; empty for any other."""
        talks = [(talk.say, ask) for talk in self.playbooks if not talk.call for ask in talk.ask]
        sentence = bare(" ".join(prompt.split()))
        return next((say for say, ask in talks if ask.fullmatch(sentence)), "")

    def is_follow_up(self, prompt: str) -> bool:
        """Whether the prompt is a sentence that only an earlier turn makes complete."""
        sentence = bare(" ".join(prompt.split()))
        asks = (ask for playbook in self.playbooks if playbook.after for ask in playbook.ask)
        return any(ask.fullmatch(sentence) for ask in asks)

    def plan(
        self, prompt: str, tools: Collection[str], today: date | None, memory: Sequence[Remembered] = ()
    ) -> list[Step]:
        """Plan the steps of a prompt; none unless the whole prompt is understood, with these tools.

        ``memory``: the steps of earlier turns that follow-ups may refer to.
        """
        text = " ".join(prompt.split())
        masked = PATTERNS["quoted"].sub(lambda quoted: "\0" * len(quoted[0]), text)
        joints = [match for match in PATTERNS["joint"].finditer(masked) if match["mark"] or match["words"]]
        usable = [playbook for playbook in self.playbooks if playbook.call in tools]

        @cache
        def steps_from(start: int, after_all: bool) -> list[Step]:
            """Plan the rest of the text, by the shortest sentences; none if it is not understood."""
            for joint in joints:
                clause = text[start : joint.start()]
                if steps := self._sentence(clause, usable, today, memory, after_all) if clause else []:
                    then = re.search(r"then|after", joint["words"] or "", re.IGNORECASE) is not None
                    if following := steps_from(joint.end(), then):
                        return steps + following
            return self._sentence(text[start:], usable, today, memory, after_all)

        return steps_from(0, False) if len(text) <= _MAX_PROMPT else []

    def _sentence(
        self,
        clause: str,
        usable: Sequence[Playbook],
        today: date | None,
        memory: Sequence[Remembered],
        after_all: bool,
    ) -> list[Step]:
        plain = bare(clause)
        for playbook in usable:
            earlier = playbook.after.latest(memory) if playbook.after else None
            if playbook.after and earlier is None:
                continue
            known = earlier.slots if earlier else {}
            for match in filter(None, (sentence.fullmatch(plain) for sentence in playbook.ask)):
                groups = [(*group.split("__"), text) for group, text in match.groupdict().items() if text]
                with suppress(*UNREADABLE):
                    slots = {
                        name: read_slot(kind, text, today, self.languages) for name, kind, text in groups
                    }
                    return [*playbook.steps({**known, **slots}, plain, after_all)]
        return []


def load_playbooks(*paths: Path) -> Playbooks:
    """Read the playbooks of these files, in order; by default the shipped ones. Raises ``InputError``."""
    read: list[Playbooks] = []
    for file in (read_spec_file(path, "`playbooks`") for path in paths or [SHIPPED]):
        for at, entry in enumerate(as_list(file.data.get("playbooks"))):
            file.check(Playbook, ("playbooks", at), entry)  # first, so that its keys explain a mistake in it
        read.append(file.check(Playbooks, (), file.data))
    languages = ChainMap(*(each.languages for each in read))
    return Playbooks(languages={**languages}, playbooks=[entry for each in read for entry in each.playbooks])
