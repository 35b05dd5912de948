"""The ``expect`` object of a prompt, its oracle: expected side effects and typed values.

::

    {"effects": [{"kind": "message_sent",
                  "fields": {"to": "Bob", "body": {"number": 11.3, "tolerance": 0.5}}}],
     "values": [{"number": 11.3, "unit": "celsius", "tolerance": 0.1}, {"text": "bonjour"},
                {"any_of": ["a", "b"]}],
     "done_if_text": "exact text"}

No ``effects``: none are expected, and any is one too many. No ``values``: the value axis does not apply.
A field is a plain value, ``{"contains": text or list}``, ``{"number": x, "tolerance": t, "unit": u}`` or
``{"any_of": [...]}``; fields that are not named may hold anything. ``"grounded": false`` on a value says
that no tool is needed for it. ``done_if_text`` is for subjects without a report: an answer which is
exactly that text counts as done, and as the right values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import (
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

from windtunnel.core.spelling import nearest
from windtunnel.links.catalog import EFFECT_FIELDS


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


class _Strict(BaseModel):
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


class Matcher(_Strict):
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


class ExpectedEffect(_Strict):
    """One side effect that the prompt asks for."""

    kind: StrictStr
    fields: dict[str, Matcher] = Field(default_factory=dict)

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind not in EFFECT_FIELDS:
            raise ValueError(f"{kind!r} is no kind of side effect{nearest(kind, EFFECT_FIELDS)}")
        return kind

    @model_validator(mode="after")
    def _has_fields(self) -> ExpectedEffect:
        known = EFFECT_FIELDS[self.kind]
        for name in self.fields:
            if name not in known:
                raise ValueError(f"{self.kind} has no field {name!r}{nearest(name, known)}")
        return self


class Slot(_Strict):
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


class Oracle(_Strict):
    """The ground truth for one prompt."""

    effects: list[ExpectedEffect] = Field(default_factory=list)
    values: list[Slot] = Field(default_factory=list)
    done_if_text: Annotated[StrictStr, Field(min_length=1)] | None = None


def parse_expect(expect: Mapping[str, Any]) -> Oracle:
    """The oracle; raises ``ValueError`` that names the key's path and the nearest valid name."""
    try:
        return Oracle.model_validate(dict(expect))
    except ValidationError as error:
        # a wrong name says more than the key which is then missing
        errors = sorted(error.errors(include_url=False), key=lambda e: e["type"] != "extra_forbidden")
        path = errors[0]["loc"]
        if errors[0]["type"] == "extra_forbidden":
            reason = f"is no key here{nearest(str(path[-1]), _names_at(path[:-1]))}"
        else:
            reason = errors[0]["msg"].removeprefix("Value error, ")
        raise ValueError(f"{_spelt(('expect', *path))}: {reason}") from None


def _names_at(path: tuple[int | str, ...]) -> list[str]:
    if not path:
        return list(Oracle.model_fields)
    if path[0] == "values":
        return list(Slot.model_fields)
    names = Matcher.model_fields if "fields" in path else ExpectedEffect.model_fields
    return [name for name in names if name != "equals"]


def _spelt(path: Iterable[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
