"""Rules for answers in prose: what an answer must say, where there is no report to read it from. Pure.

A rule is one of ``{"contains": text or list}``, all of which must be stated, ``{"matches": RE2 pattern}``,
searched in the answer, ``{"number": x, "unit": u, "tolerance": t}``, ``{"json": {key: value}}`` and
``{"any_of": [rule or text, ...]}``. A text alone is short for ``{"contains": text}``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StrictStr, ValidationError, field_validator, model_validator
from pydantic_core import from_json

from wirefault.core.patterns import checked_pattern, occurs
from wirefault.judging.oracle.slots import Number, OraclePart, Slot, Tolerance
from wirefault.judging.oracle.value import FilledSlot, ValueJudgement
from wirefault.judging.reading.stated import Stated, stated

_KINDS = ("contains", "matches", "number", "json", "any_of")
_MAX_JSON_DEPTH = 20
_FENCED = re.compile(r"```\w*\s*(.*?)(?:```|\Z)", re.DOTALL)  # the last one may not be closed


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


Part = Annotated[StrictStr, Field(min_length=1)]


class AnswerRule(OraclePart):
    """What an answer must say."""

    contains: Annotated[list[Part], BeforeValidator(_listed), Field(min_length=1)] | None = None
    matches: Part | None = None
    number: Number | None = None
    unit: StrictStr | None = None
    tolerance: Tolerance | None = None
    json_object: Annotated[dict[str, Any], Field(min_length=1)] | None = Field(None, alias="json")
    any_of: Annotated[list[AnswerRule], Field(min_length=1)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, given: object) -> object:
        return {"contains": given} if isinstance(given, str) else given

    @field_validator("matches")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            checked_pattern(pattern)
        return pattern

    @field_validator("json_object")
    @classmethod
    def _can_be_said(cls, expected: dict[str, Any] | None) -> dict[str, Any] | None:
        _check_json(expected or {}, _MAX_JSON_DEPTH)
        return expected

    @model_validator(mode="after")
    def _one(self) -> AnswerRule:
        names = {"json_object": "json"}
        given = {names.get(name, name) for name in self.model_fields_set}
        if len(given.intersection(_KINDS)) != 1:
            raise ValueError(f"needs exactly one of {', '.join(_KINDS)}")
        if self.number is None and (self.unit is not None or self.tolerance is not None):
            raise ValueError("unit and tolerance go with a number")
        self.slots()
        return self

    def slots(self) -> list[Slot]:
        """The values that it asks for, as of a report; none if it asks by a pattern, JSON or any of several.

        Raises ``ValueError`` for what can be no value.
        """
        if self.contains is not None:
            return [_slot(text=part) for part in self.contains]
        if self.number is not None:
            return [_slot(number=self.number, unit=self.unit, tolerance=self.tolerance)]
        return []


def _slot(**asked: Any) -> Slot:
    try:
        return Slot.model_validate({key: value for key, value in asked.items() if value is not None})
    except ValidationError as error:
        raise ValueError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None


def _slot_for(expected: int | float | str) -> Slot:
    return _slot(text=expected) if isinstance(expected, str) else _slot(number=expected)


def _check_json(expected: Any, depth: int) -> None:
    """Raises ``ValueError`` for what no answer can agree with."""
    if not depth:
        raise ValueError(f"is nested deeper than {_MAX_JSON_DEPTH}")
    if isinstance(expected, dict | list):
        for value in expected.values() if isinstance(expected, dict) else expected:
            _check_json(value, depth - 1)
    elif expected is not None and not isinstance(expected, bool):
        _slot_for(expected)


def judge_answer(rule: AnswerRule, answer: str) -> ValueJudgement:
    """The value axis of an answer without a report."""
    # UTF-8, which the readers of patterns and JSON need, cannot write half a character (a lone surrogate)
    says = _says(rule, answer.encode("utf-8", "replace").decode())
    slots = rule.slots() if says == "right" else []
    return ValueJudgement(says, tuple(FilledSlot(slot, None, slot.options[0]) for slot in slots))


def _says(rule: AnswerRule, answer: str) -> Stated:
    if rule.any_of is not None:
        return _best(_says(option, answer) for option in rule.any_of)
    if rule.matches is not None:
        return "right" if occurs(rule.matches, answer) else "none"
    if rule.json_object is not None:
        return _says_json(rule.json_object, answer)
    return _all(stated(slot, answer) for slot in rule.slots())


def _best(said: Iterable[Stated]) -> Stated:
    """Of one that suffices. What may be right, though it cannot be read, is not held to be wrong."""
    there = set(said)
    return next((each for each in ("right", "unreadable", "wrong") if each in there), "none")


def _all(said: Iterable[Stated]) -> Stated:
    """Of all that are needed."""
    there = set(said)
    return next((each for each in ("wrong", "none", "unreadable") if each in there), "right")


def _says_json(expected: Mapping[str, Any], answer: str) -> Stated:
    """Of several objects that have any of the keys, all must say the same: two different ones are a hedge."""
    objects = [found for found in _json_objects(answer) if expected.keys() & found.keys()]
    if not objects:
        return "none"
    return _all(_agrees(expected, found) for found in objects)


def _json_objects(answer: str) -> Iterator[Mapping[str, Any]]:
    """The answer as a JSON object, or those in its fenced blocks."""
    for text in (answer, *_FENCED.findall(answer)):
        try:
            value = from_json(text.strip())
        except ValueError:  # no JSON, or nested too deep
            continue
        if isinstance(value, dict):
            yield value


def _agrees(expected: Any, found: Any) -> Stated:
    """Objects may have more keys than are asked for, lists no more items."""
    if isinstance(expected, dict):
        if not isinstance(found, dict):
            return "wrong"
        return _all(_agrees(value, found[key]) if key in found else "none" for key, value in expected.items())
    if isinstance(expected, list):
        if not isinstance(found, list) or len(found) != len(expected):
            return "wrong"
        return _all(map(_agrees, expected, found))
    if expected is None or isinstance(expected, bool) or isinstance(found, bool | None | dict | list):
        return "right" if type(expected) is type(found) and expected == found else "wrong"
    return stated(_slot_for(expected), str(found))
