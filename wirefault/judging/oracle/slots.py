"""What an oracle asks of one value: a field of a side effect, or a value of the report. Checked when read."""

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
    model_validator,
)

from wirefault.judging.reading.dates import normalised_clock, normalised_day
from wirefault.judging.reading.units import WORDS, units_of


def _number(value: object) -> int | float:
    # a whole number stays an int: its default tolerance is another
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("must be a number")
    if not math.isfinite(value) or abs(value) > 1e300:
        raise ValueError("must be a finite number of at most 1e300")
    return value


def _option(value: object) -> int | float | str:
    return value if isinstance(value, str) else _number(value)


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _known_unit(unit: str) -> str:
    """A word that stands for no unit could never be held against anything, so it is an error."""
    if not units_of(unit):
        near = get_close_matches(unit.casefold(), [word for word in WORDS if word.isalpha()], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "; for example celsius, m, km/h, percent, EUR"
        raise ValueError(f"{unit!r} is no unit{hint} What is only counted has no unit.")
    return unit


Number = Annotated[int | float, PlainValidator(_number)]
Tolerance = Annotated[Number, Field(ge=0)]
Option = Annotated[int | float | str, PlainValidator(_option)]
Options = Annotated[list[Option], Field(min_length=1)]
KnownUnit = Annotated[StrictStr, AfterValidator(_known_unit)]
Day = Annotated[StrictStr, AfterValidator(normalised_day)]
Clock = Annotated[StrictStr, AfterValidator(normalised_clock)]


class OraclePart(BaseModel):
    """What an oracle is made of: frozen, and without a key that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


def _exactly_one(given: BaseModel, names: Iterable[str]) -> None:
    names = list(names)
    if len([name for name in names if name in given.model_fields_set]) != 1:
        raise ValueError(f"needs exactly one of {', '.join(names)}")


def _number_only(given: Any) -> None:
    if given.unit is None and given.tolerance is None:
        return
    options = given.any_of or []
    if given.number is None and not any(not isinstance(option, str) for option in options):
        raise ValueError("unit and tolerance go with a number")


class Matcher(OraclePart):
    """What one field of a side effect must hold. A plain value in the file stands in ``equals``."""

    equals: Any = None
    contains: Annotated[list[StrictStr], BeforeValidator(_listed), Field(min_length=1)] | None = None
    number: Number | None = None
    any_of: Options | None = None
    date: Day | None = None
    time: Clock | None = None
    tolerance: Tolerance | None = None
    unit: KnownUnit | None = None

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, given: object) -> object:
        return given if isinstance(given, dict) else {"equals": given}

    @model_validator(mode="after")
    def _one(self) -> Matcher:
        _exactly_one(self, ("equals", "contains", "number", "any_of", "date", "time"))
        _number_only(self)
        return self


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

    @model_validator(mode="after")
    def _one(self) -> Slot:
        _exactly_one(self, ("number", "text", "any_of", "date", "time"))
        _number_only(self)
        return self

    @property
    def options(self) -> list[int | float | str]:
        """The values of which any one is right; a date as ``YYYY-MM-DD``, a time of day as ``HH:MM``."""
        if self.any_of is not None:
            return list(self.any_of)
        texts = (self.text, self.date, self.time)
        return [next((text for text in texts if text is not None), self.number or 0)]


def moment_fields(given: object) -> object:
    """The fields of an expected side effect, with ``date`` and ``time`` in the form that is stored.

    A plain text there stands for ``{"date": text}`` or ``{"time": text}``; so do the texts of ``any_of``.
    """
    if not isinstance(given, dict):
        return given
    readers = {"date": normalised_day, "time": normalised_clock}
    fields = dict(given)
    for name in fields.keys() & readers.keys():
        value = fields[name]
        if isinstance(value, str):
            fields[name] = {name: value}
        elif isinstance(value, dict) and isinstance(value.get("any_of"), list):
            options = [readers[name](each) if isinstance(each, str) else each for each in value["any_of"]]
            fields[name] = {**value, "any_of": options}
    return fields
