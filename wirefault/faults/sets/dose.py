"""How much of a toxic or a fault an attempt gets: on which links at once, in which part of it. Pure.

during: {start: 2s, duration: 3s, ramp: 1s}              # seconds since the attempt was armed
during: {start: 3 calls, duration: 2 calls}              # the link's 3rd and 4th call of the attempt
during: [{start: 1s, duration: 1s}, {start: 4s, duration: 1s}]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Annotated, Any, NamedTuple

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)

from wirefault.core.spans import Span, SpanUnit
from wirefault.faults.sets.conditions import checked_model

_AMOUNT = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ms|s|calls?)\s*")
_MOST: dict[SpanUnit, float] = {"s": 3600, "calls": 10_000}
_EXAMPLE = "must be seconds such as 2s or 500ms, or calls such as 3 calls"


class Amount(NamedTuple):
    """So many seconds or calls."""

    value: float
    unit: SpanUnit


def _parse_amount(value: Any) -> Amount:
    """``2s``, ``500ms``, ``3 calls``, ``1 call``, or a number of seconds."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        amount = Amount(float(value), "s")
    elif isinstance(value, str) and (match := _AMOUNT.fullmatch(value)):
        number, unit = float(match[1]), match[2]
        amount = Amount(number / (1000 if unit == "ms" else 1), "s" if unit in ("ms", "s") else "calls")
    else:
        raise ValueError(_EXAMPLE)
    if amount.unit == "calls" and amount.value != int(amount.value):
        raise ValueError("must be a whole number of calls")
    if not 0 <= amount.value <= _MOST[amount.unit]:
        raise ValueError(f"must be in 0 .. {_MOST[amount.unit]:g} {amount.unit}")
    return amount._replace(value=round(amount.value, 6))


def _amount_text(amount: Amount) -> str:
    if amount.unit == "calls":
        return f"{amount.value:.0f} calls"
    return f"{amount.value:.6f}".rstrip("0").rstrip(".") + "s"


_Amount = Annotated[
    Amount,
    PlainValidator(_parse_amount),
    PlainSerializer(_amount_text, return_type=str),
    WithJsonSchema({"type": ["string", "number"]}),
]


class Outage(BaseModel):
    """A part of the attempt: in seconds since it was armed, or in calls of the link, counted from 1."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    start: _Amount | None = Field(None, description="when it begins: 2s, or 3 calls; without it, at once")
    duration: _Amount | None = Field(None, description="how long it lasts; without it, to the attempt's end")
    ramp: _Amount | None = Field(
        None,
        description="how long its dose rises: a fault's chance from 0, a toxic's figure in 4 steps",
    )

    @model_validator(mode="after")
    def _is_possible(self) -> Outage:
        given = [amount for amount in (self.start, self.duration, self.ramp) if amount is not None]
        if not given:
            raise ValueError("is empty: it needs a start, a duration or a ramp")
        if len({amount.unit for amount in given}) > 1:
            raise ValueError("start, duration and ramp must be all in seconds, or all in calls")
        if any(amount is not None and not amount.value for amount in (self.duration, self.ramp)):
            raise ValueError("duration and ramp must be more than 0")
        if given[0].unit == "calls" and self.start is not None and not self.start.value:
            raise ValueError("calls begin with 1: start 1 calls is the first")
        if self.ramp and self.duration and self.ramp.value > self.duration.value:
            raise ValueError("the ramp is longer than the duration, so that the dose would never be full")
        return self

    @property
    def span(self) -> Span:
        amounts = [self.start, self.duration, self.ramp]
        unit = next(amount.unit for amount in amounts if amount is not None)
        start, duration, ramp = (amount.value if amount is not None else 0.0 for amount in amounts)
        return Span(start or Span(unit=unit).first, duration, ramp, unit)


def _as_tuple(value: Any) -> Any:
    """One outage, or a list of them."""
    if isinstance(value, dict):
        return (value,)
    if not isinstance(value, list):
        raise ValueError("must be an outage such as {start: 2s, duration: 3s}, or a list of them")
    return tuple(value)


class Dose(BaseModel):
    """``together``, ``duration`` and ``during`` of a fault set's entry, as they stand in a file."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    together: bool = Field(False, description="one draw of the attempt for all its links")
    duration: float = Field(
        0.0, ge=0, le=600, description="seconds since the attempt was armed; 0: the whole attempt"
    )
    during: Annotated[tuple[Outage, ...], BeforeValidator(_as_tuple)] = Field(
        (), description="outages inside the attempt, one or a list: start, duration, ramp"
    )

    @model_validator(mode="after")
    def _is_possible(self) -> Dose:
        if self.duration and self.during:
            raise ValueError("duration and during are both given: say the duration in during")
        spans = self.spans
        if len({span.unit for span in spans}) > 1:
            raise ValueError("during: all its outages must be in seconds, or all in calls")
        if any(earlier.overlaps(later) for earlier, later in combinations(spans, 2)):
            raise ValueError("during: two of its outages overlap")
        return self

    @property
    def spans(self) -> Sequence[Span]:
        """When it stands; none: throughout the attempt."""
        if self.duration:
            return (Span(0.0, self.duration),)
        return tuple(outage.span for outage in self.during)

    @property
    def by_calls(self) -> bool:
        """Whether it counts calls of the link."""
        return any(span.unit == "calls" for span in self.spans)

    @property
    def by_clock(self) -> bool:
        """Whether it goes by the clock."""
        return any(span.unit == "s" for span in self.spans)

    @property
    def rises(self) -> bool:
        return any(span.ramp for span in self.spans)

    def share(self, seconds: float, call: int) -> float:
        """How much of it is in force so long after the arming, at that call of the link: 0 to 1."""
        spans = self.spans
        if not spans:
            return 1.0
        return max(span.share(seconds if span.unit == "s" else call) for span in spans)


def dose_of(entry: Mapping[str, Any], where: str) -> Dose:
    """That of an entry of a set. Raises ``FaultSetError``."""
    return checked_model(Dose, {key: entry[key] for key in Dose.model_fields if key in entry}, where)
