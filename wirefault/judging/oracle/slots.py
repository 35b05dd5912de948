"""An oracle's expectations for a field of a side effect, a value of a report, or an answer in prose.

Everything is checked on reading. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    StrictStr,
    ValidationError,
    field_validator,
    model_validator,
)

from wirefault.core.errors import nearest
from wirefault.core.plain_data import checked_pattern, occurs
from wirefault.judging.reading.dates import normalised_clock, normalised_day
from wirefault.judging.reading.units import unit_words, units_of

MAX_NUMBER = 1e300
_MAX_JSON_DEPTH = 20
_ANSWER_KINDS = (
    "contains",
    "not_contains",
    "matches",
    "not_matches",
    "number",
    "date",
    "time",
    "json",
    "any_of",
    "all_of",
)
_ESCAPE = 'write an object with such fields as {"equals": {...}}'


def _number(value: object) -> int | float:
    # a whole number stays an int, because its default tolerance differs
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("must be a number")
    if not math.isfinite(value) or abs(value) > MAX_NUMBER:
        raise ValueError("must be a finite number of at most 1e300")
    return value


def _option(value: object) -> int | float | str:
    return value if isinstance(value, str) else _number(value)


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _known_unit(unit: str) -> str:
    """Return the unit. Raises ``ValueError`` for an unknown unit, which no value could match."""
    if not units_of(unit):
        near = get_close_matches(unit.casefold(), [word for word in unit_words() if word.isalpha()], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "; for example celsius, m, km/h, percent, EUR."
        raise ValueError(f"unknown unit {unit!r}{hint} Things that are only counted have no unit.")
    return unit


Number = Annotated[int | float, PlainValidator(_number)]
Tolerance = Annotated[Number, Field(ge=0)]
Option = Annotated[int | float | str, PlainValidator(_option)]
Options = Annotated[list[Option], Field(min_length=1)]
KnownUnit = Annotated[StrictStr, AfterValidator(_known_unit)]
Day = Annotated[StrictStr, AfterValidator(normalised_day)]
Clock = Annotated[StrictStr, AfterValidator(normalised_clock)]
Part = Annotated[StrictStr, Field(min_length=1)]


class OraclePart(BaseModel):
    """The base of all parts of an oracle: frozen, unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def _exactly_one(part: BaseModel, names: Iterable[str]) -> None:
    names = list(names)
    if len([name for name in names if name in part.model_fields_set]) != 1:
        raise ValueError(f"needs exactly one of {', '.join(names)}")


def _number_only(part: Any) -> None:
    if part.unit is None and part.tolerance is None:
        return
    options = part.any_of or []
    if part.number is None and not any(isinstance(option, int | float) for option in options):
        raise ValueError("unit and tolerance go with a number")


def _matcher_option(value: object) -> int | float | str | Matcher:
    if not isinstance(value, dict):
        return _option(value)
    try:
        return Matcher.model_validate(value)
    except ValidationError as error:
        names = [*value.keys() - MATCHER_KEYS]
        hint = f"unknown key {names[0]!r}{nearest(str(names[0]), MATCHER_KEYS)}" if names else _reason(error)
        raise ValueError(hint) from None


MatcherOption = Annotated["int | float | str | Matcher", PlainValidator(_matcher_option)]


class Matcher(OraclePart):
    """The expected value of one field of a side effect. A plain value in the file becomes ``equals``."""

    equals: Any = None
    contains: Annotated[list[StrictStr], BeforeValidator(_listed), Field(min_length=1)] | None = None
    number: Number | None = None
    # a text or a number, or an object such as {"contains": "late"}
    any_of: Annotated[list[MatcherOption], Field(min_length=1)] | None = None
    date: Day | None = None
    time: Clock | None = None
    tolerance: Tolerance | None = None
    unit: KnownUnit | None = None

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, value: object) -> object:
        return value if isinstance(value, dict) else {"equals": value}

    @model_validator(mode="after")
    def _one(self) -> Matcher:
        _exactly_one(self, ("equals", "contains", "number", "any_of", "date", "time"))
        _number_only(self)
        return self


MATCHER_KEYS = frozenset(Matcher.model_fields)
MOMENT_KEYS = frozenset({"date", "time"})


def checked_json(value: Any) -> Any:
    """Check every matcher in the value, and return it. Raises ``ValueError`` for an invalid matcher.

    A body or a state with only ``date`` and ``time`` that is not a matcher is an object with these fields.
    """
    if isinstance(value, dict) and value and value.keys() <= MOMENT_KEYS:
        try:
            Matcher.model_validate(value)
        except ValidationError:
            return _with_checked_fields(value)
        return value
    return _checked_part(value)


def _checked_part(value: Any) -> Any:
    is_matcher = isinstance(value, dict) and bool(value) and value.keys() <= MATCHER_KEYS
    if not is_matcher or value.keys() == MOMENT_KEYS:
        return _with_checked_fields(value)
    try:
        Matcher.model_validate(value)
    except ValidationError as error:
        raise ValueError(f"{', '.join(value)}: {_reason(error)}; {_ESCAPE}") from None
    return value


def _with_checked_fields(value: Any) -> Any:
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            _checked_part(part)
    return value


class Slot(OraclePart):
    """One value that the subject must report."""

    number: Number | None = None
    text: StrictStr | None = None
    any_of: Options | None = None
    date: Day | None = None
    time: Clock | None = None
    unit: KnownUnit | None = None
    tolerance: Tolerance | None = None
    grounded: StrictBool = True

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, value: object) -> object:
        """Read a plain number or text as the value itself."""
        if isinstance(value, str):
            return {"text": value}
        if isinstance(value, int | float) and not isinstance(value, bool):
            return {"number": value}
        if not isinstance(value, dict | Slot):
            raise ValueError(
                f"must be a number, a text, or an object such as {{'number': 3}}, not {value!r:.40}"
            )
        return value

    @model_validator(mode="after")
    def _one(self) -> Slot:
        _exactly_one(self, ("number", "text", "any_of", "date", "time"))
        _number_only(self)
        return self

    @property
    def options(self) -> list[int | float | str]:
        """The right values, any of which suffices; a date as ``YYYY-MM-DD``, a time of day as ``HH:MM``."""
        if self.any_of is not None:
            return list(self.any_of)
        texts = (self.text, self.date, self.time)
        return [next((text for text in texts if text is not None), self.number or 0)]


class AnswerRule(OraclePart):
    """The statements that an answer in prose must make, for subjects without a report.

    Exactly one of ``{"contains": text or list}``, all of which must be stated, ``{"matches": RE2 pattern}``,
    searched in the answer, ``{"not_contains": text or list}``, none of which may occur in exactly these
    characters, ``{"not_matches": RE2 pattern}``, ``{"number": x, "unit": u, "tolerance": t}``,
    ``{"date": day}``, ``{"time": time of day}``, ``{"json": {key: value}}``, and of rules or texts
    ``{"any_of": [...]}`` and ``{"all_of": [...]}``. A text alone is short for ``{"contains": text}``.
    """

    contains: Annotated[list[Part], BeforeValidator(_listed), Field(min_length=1)] | None = None
    not_contains: Annotated[list[Part], BeforeValidator(_listed), Field(min_length=1)] | None = None
    matches: Part | None = None
    not_matches: Part | None = None
    number: Number | None = None
    unit: StrictStr | None = None
    tolerance: Tolerance | None = None
    date: Day | None = None
    time: Clock | None = None
    json_object: Annotated[dict[str, Any], Field(min_length=1)] | None = Field(None, alias="json")
    any_of: Annotated[list[AnswerRule], Field(min_length=1)] | None = None
    all_of: Annotated[list[AnswerRule], Field(min_length=1)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, value: object) -> object:
        return {"contains": value} if isinstance(value, str) else value

    @field_validator("matches", "not_matches")
    @classmethod
    def _compiles(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            checked_pattern(pattern)
        return pattern

    @field_validator("json_object")
    @classmethod
    def _can_be_stated(cls, expected: dict[str, Any] | None) -> dict[str, Any] | None:
        _check_json(expected or {}, _MAX_JSON_DEPTH)
        return expected

    @model_validator(mode="after")
    def _one(self) -> AnswerRule:
        aliases = {"json_object": "json"}
        keys = {aliases.get(name, name) for name in self.model_fields_set}
        if len(keys.intersection(_ANSWER_KINDS)) != 1:
            raise ValueError(f"needs exactly one of {', '.join(_ANSWER_KINDS)}")
        if self.number is None and (self.unit is not None or self.tolerance is not None):
            raise ValueError("unit and tolerance go with a number")
        self.slots()
        return self

    def slots(self) -> list[Slot]:
        """The values that it expects, as those of a report; none for a pattern, a forbidden text, JSON or
        ``any_of``.

        Raises ``ValueError`` for something that can be no value.
        """
        if self.contains is not None:
            return [_slot(text=part) for part in self.contains]
        if self.number is not None:
            return [_slot(number=self.number, unit=self.unit, tolerance=self.tolerance)]
        if self.date is not None or self.time is not None:
            return [_slot(date=self.date, time=self.time)]
        return [slot for rule in self.all_of or () for slot in rule.slots()]

    def violated(self, answer: str) -> str:
        """The texts that the answer has and must not have; empty without any."""
        for text in self.not_contains or ():
            if text in answer:
                return f"{text!r}, which it must not contain"
        if self.not_matches is not None and occurs(self.not_matches, answer):
            return f"a match of {self.not_matches}, which it must not contain"
        return next(filter(None, (rule.violated(answer) for rule in self.all_of or ())), "")


def slot_for(expected: int | float | str) -> Slot:
    """The slot of a plain value."""
    return _slot(text=expected) if isinstance(expected, str) else _slot(number=expected)


def _slot(**fields: Any) -> Slot:
    try:
        return Slot.model_validate({key: value for key, value in fields.items() if value is not None})
    except ValidationError as error:
        raise ValueError(_reason(error)) from None


def _reason(error: ValidationError) -> str:
    return error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")


def _check_json(expected: Any, depth: int) -> None:
    """Raise ``ValueError`` for a value that no answer can match."""
    if not depth:
        raise ValueError(f"is nested deeper than {_MAX_JSON_DEPTH}")
    if isinstance(expected, dict | list):
        for value in expected.values() if isinstance(expected, dict) else expected:
            _check_json(value, depth - 1)
    elif expected is not None and not isinstance(expected, bool):
        slot_for(expected)


def moment_fields(fields: object) -> object:
    """The fields of an expected side effect, with ``date`` and ``time`` in their stored form.

    A plain text is short for ``{"date": text}`` or ``{"time": text}``; so are the texts of ``any_of``.
    """
    if not isinstance(fields, dict):
        return fields
    readers = {"date": normalised_day, "time": normalised_clock}
    result = dict(fields)
    for name in result.keys() & readers.keys():
        value = result[name]
        if isinstance(value, str):
            result[name] = {name: value}
        elif isinstance(value, dict) and isinstance(value.get("any_of"), list):
            options = [readers[name](each) if isinstance(each, str) else each for each in value["any_of"]]
            result[name] = {**value, "any_of": options}
    return result
