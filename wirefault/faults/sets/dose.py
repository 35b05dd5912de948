"""The dose of a fault or toxic: on which links at once, and in which parts of the attempt. Pure.

during: {start: 2s, duration: 3s, ramp: 1s}              # seconds since the attempt was armed
during: {start: first_met, duration: 20s}                # from the first call that meets the fault
during: {start: 3 calls, duration: 2 calls}              # the link's 3rd and 4th call of the attempt
during: [{start: 1s, duration: 1s}, {start: 4s, duration: 1s}]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Annotated, Any, Literal, NamedTuple

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
_MAX_AMOUNTS: dict[SpanUnit, float] = {"s": 3600, "calls": 10_000}
_EXAMPLE = "must be seconds such as 2s or 500ms, or calls such as 3 calls"
FIRST_MET = "first_met"


class Amount(NamedTuple):
    """A number of seconds or calls."""

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
    if not 0 <= amount.value <= _MAX_AMOUNTS[amount.unit]:
        raise ValueError(f"must be in 0 .. {_MAX_AMOUNTS[amount.unit]:g} {amount.unit}")
    return amount._replace(value=round(amount.value, 6))


def _amount_text(amount: Amount) -> str:
    if amount.unit == "calls":
        return f"{amount.value:.0f} calls"
    return f"{amount.value:.6f}".rstrip("0").rstrip(".") + "s"


def _parse_start(value: Any) -> Amount | Literal["first_met"]:
    if value == FIRST_MET:
        return "first_met"
    try:
        return _parse_amount(value)
    except ValueError as error:
        hint = f"{error}, or {FIRST_MET}" if str(error) == _EXAMPLE else str(error)
        raise ValueError(hint) from None


def _start_text(start: Amount | Literal["first_met"]) -> str:
    return start if isinstance(start, str) else _amount_text(start)


_Amount = Annotated[
    Amount,
    PlainValidator(_parse_amount),
    PlainSerializer(_amount_text, return_type=str),
    WithJsonSchema({"type": ["string", "number"]}),
]


_Start = Annotated[
    Amount | Literal["first_met"],
    PlainValidator(_parse_start),
    PlainSerializer(_start_text, return_type=str),
    WithJsonSchema({"type": ["string", "number"]}),
]


class Outage(BaseModel):
    """A part of the attempt, in seconds since the arming or since the first call that meets the fault, or in
    calls of the link, from 1."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    start: _Start | None = Field(
        None,
        description="begin: 2s, or 3 calls; first_met: with the first call that meets the fault otherwise,"
        " which starts the clock; default: at once",
    )
    duration: _Amount | None = Field(None, description="length; default: to the attempt's end")
    ramp: _Amount | None = Field(
        None,
        description="rise of the dose: a fault's probability from 0, a toxic's attribute in 4 steps",
    )

    @model_validator(mode="after")
    def _is_possible(self) -> Outage:
        amounts = self._amounts
        if self.from_first_met and any(amount.unit == "calls" for amount in amounts):
            raise ValueError(
                "start: first_met starts a clock: give duration and ramp in seconds, or use when: {first: n}"
            )
        if not amounts and not self.from_first_met:
            raise ValueError("must have a start, a duration or a ramp")
        if not amounts:
            raise ValueError("start: first_met changes nothing without a duration or a ramp")
        if len({amount.unit for amount in amounts}) > 1:
            raise ValueError("start, duration and ramp must be all in seconds, or all in calls")
        if any(amount is not None and not amount.value for amount in (self.duration, self.ramp)):
            raise ValueError("duration and ramp must be more than 0")
        if isinstance(self.start, Amount) and self.start.unit == "calls" and not self.start.value:
            raise ValueError("calls are counted from 1: the first is start: 1 calls")
        if self.ramp and self.duration and self.ramp.value > self.duration.value:
            raise ValueError("the ramp must not be longer than the duration")
        return self

    @property
    def span(self) -> Span:
        """Since the arming, or since the first call that meets the fault."""
        unit = self._amounts[0].unit
        start = self.start.value if isinstance(self.start, Amount) else 0.0
        duration, ramp = (amount.value if amount else 0.0 for amount in (self.duration, self.ramp))
        return Span(start or Span(unit=unit).first, duration, ramp, unit)

    @property
    def from_first_met(self) -> bool:
        return self.start == FIRST_MET

    @property
    def _amounts(self) -> list[Amount]:
        amounts = (self.start, self.duration, self.ramp)
        return [amount for amount in amounts if isinstance(amount, Amount)]


def _as_tuple(value: Any) -> Any:
    """One outage, or a list of them."""
    if isinstance(value, dict):
        return (value,)
    if not isinstance(value, list):
        raise ValueError("must be an outage such as {start: 2s, duration: 3s}, or a list of them")
    return tuple(value)


class Dose(BaseModel):
    """``together``, ``duration`` and ``during`` of a fault set's entry."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    together: bool = Field(False, description="one draw per attempt for all its links")
    duration: float = Field(0.0, ge=0, le=600, description="seconds from the arming; 0: the whole attempt")
    during: Annotated[tuple[Outage, ...], BeforeValidator(_as_tuple)] = Field(
        (), description="outages inside the attempt, one or a list: start, duration, ramp"
    )

    @model_validator(mode="after")
    def _is_possible(self) -> Dose:
        if self.duration and self.during:
            raise ValueError("use duration or during, not both: during can have a duration")
        if self.from_first_met and len(self.during) > 1:
            raise ValueError("during: an outage with start: first_met must be the only one")
        spans = self.spans
        if len({span.unit for span in spans}) > 1:
            raise ValueError("during: all its outages must be in seconds, or all in calls")
        if any(earlier.overlaps(later) for earlier, later in combinations(spans, 2)):
            raise ValueError("during: two of its outages overlap")
        return self

    @property
    def spans(self) -> Sequence[Span]:
        """The active parts of the attempt; empty: all of it."""
        if self.duration:
            return (Span(0.0, self.duration),)
        return tuple(outage.span for outage in self.during)

    @property
    def by_calls(self) -> bool:
        """Whether it counts calls of the link."""
        return any(span.unit == "calls" for span in self.spans)

    @property
    def by_clock(self) -> bool:
        """Whether it depends on the clock."""
        return any(span.unit == "s" for span in self.spans)

    @property
    def from_first_met(self) -> bool:
        """Whether its clock starts with the first call that meets the fault, not with the arming."""
        return any(outage.from_first_met for outage in self.during)

    @property
    def rises(self) -> bool:
        return any(span.ramp for span in self.spans)

    def share(self, seconds: float, call: int) -> float:
        """The share in force at that time on its clock and at that call of the link, 0 to 1."""
        spans = self.spans
        if not spans:
            return 1.0
        return max(span.share(seconds if span.unit == "s" else call) for span in spans)


def dose_of(entry: Mapping[str, Any], where: str) -> Dose:
    """Read the dose of a set's entry. Raises ``FaultSetError``."""
    return checked_model(Dose, {key: entry[key] for key in Dose.model_fields if key in entry}, where)
