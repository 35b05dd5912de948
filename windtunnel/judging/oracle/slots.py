"""What an oracle asks of one value: a field of a side effect, or a value of the report. Checked when read."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    StrictStr,
    model_validator,
)


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


Number = Annotated[int | float, PlainValidator(_number)]
Tolerance = Annotated[Number, Field(ge=0)]
Option = Annotated[int | float | str, PlainValidator(_option)]
Options = Annotated[list[Option], Field(min_length=1)]


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
    tolerance: Tolerance | None = None
    unit: StrictStr | None = None

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, given: object) -> object:
        return given if isinstance(given, dict) else {"equals": given}

    @model_validator(mode="after")
    def _one(self) -> Matcher:
        _exactly_one(self, ("equals", "contains", "number", "any_of"))
        _number_only(self)
        return self


class Slot(OraclePart):
    """One value that the subject must report."""

    number: Number | None = None
    text: StrictStr | None = None
    any_of: Options | None = None
    unit: StrictStr | None = None
    tolerance: Tolerance | None = None
    grounded: StrictBool = True

    @model_validator(mode="after")
    def _one(self) -> Slot:
        _exactly_one(self, ("number", "text", "any_of"))
        _number_only(self)
        return self

    @property
    def options(self) -> list[int | float | str]:
        """The values of which any one is right."""
        if self.any_of is not None:
            return list(self.any_of)
        return [self.text if self.text is not None else self.number or 0]
