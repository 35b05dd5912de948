"""When an eligible try meets a fault: by chance, by count, by turn, by the clock. Pure."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import (
    AfterValidator,
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

_RANGE = re.compile(r"\s*([0-9]{1,9})\s*(?:-\s*([0-9]{0,9}))?\s*")


def _parse_range(value: Any) -> tuple[int, int | None]:
    """``3``, ``"3"``, ``"2-4"``, ``"2-"`` or ``[2, 4]``."""
    match value:
        case bool():
            pass
        case int():
            return value, value
        case str() if match := _RANGE.fullmatch(value):
            first = int(match[1])
            return first, first if "-" not in value else int(match[2]) if match[2] else None
        case [int() as first, int() | None as last] if not isinstance(first, bool):
            return first, last
    raise ValueError("must be a count such as 3, a range such as 2-4, or an open one such as 2-")


def _in_order(span: tuple[int, int | None]) -> tuple[int, int | None]:
    if span[0] < 1:
        raise ValueError("counts begin with 1")
    if span[1] is not None and span[1] < span[0]:
        raise ValueError(f"the range {span[0]}-{span[1]} is empty")
    return span


CountRange = Annotated[tuple[int, int | None], BeforeValidator(_parse_range), AfterValidator(_in_order)]


class Window(BaseModel):
    """An outage: seconds since the run's start. Within ``ramp`` seconds the chance rises fully."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    start: float = Field(0.0, ge=0, description="seconds since the run's start")
    end: float | None = Field(None, gt=0, description="seconds since the run's start; without it, to its end")
    ramp: float = Field(0.0, ge=0, description="seconds in which the chance rises from 0")

    @model_validator(mode="after")
    def _in_order(self) -> Window:
        if self.end is not None and self.end <= self.start:
            raise ValueError("must end after it starts")
        return self

    def share(self, elapsed_s: float) -> float:
        """How much of the chance is in force at that time: 0 to 1."""
        if elapsed_s < self.start or (self.end is not None and elapsed_s >= self.end):
            return 0.0
        return min(1.0, (elapsed_s - self.start) / self.ramp) if self.ramp else 1.0


class Moment(NamedTuple):
    """What a trigger may know of a try. Counts are of what the entry matched, per episode and link.

    ``calls`` and ``tries`` count from 1 and include this one (all tries of a call share its number);
    ``model_requests`` counts the requests to the model in the attempt so far; ``met`` counts the earlier
    tries that met the fault, and ``last_met`` is the call of the last of them, 0 without one. ``turn`` is
    the user's, from 1. ``attempt_s``: seconds since the attempt was armed; ``link_call``: the call's number
    among all of the attempt on its link, whatever the entry matched, from 1.
    """

    calls: int = 1
    tries: int = 1
    model_requests: int = 0
    elapsed_s: float = 0.0
    met: int = 0
    last_met: int = 0
    turn: int = 1
    attempt_s: float = 0.0
    link_call: int = 1


class When(BaseModel):
    """All conditions that are given must hold. Counts are of logical calls, or of tries (``of: try``)."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    probability: float = Field(1.0, ge=0, le=1, description="chance, drawn anew for every try")
    nth: CountRange | None = Field(None, description="only the nth: 3, or a range: 2-4, 2-")
    after: int | None = Field(None, ge=0, description="not the first n")
    first: int | None = Field(None, ge=1, description="only the first n")
    every: int | None = Field(None, ge=1, description="every nth")
    of: Literal["call", "try"] = Field("call", description="what nth, after, first and every count")
    turn: CountRange | None = Field(
        None, description="only in these turns of the user, the first is 1: 1, 2-4, 2-"
    )
    model_requests: CountRange | None = Field(
        None,
        validation_alias=AliasChoices("model_requests", "turns"),
        description="only in these requests to the model: 1, 2-4, 2-; its old name is turns",
    )
    window: Window | None = Field(None, description="an outage by the clock: start, end, ramp")
    persistent: bool = Field(False, description="once met, it is met for the rest of the episode")
    at_most: int | None = Field(None, ge=1, description="met at most n times in an episode")
    cooldown: int | None = Field(None, ge=1, description="calls that pass each time after it was met")

    @model_validator(mode="before")
    @classmethod
    def _has_one_name(cls, given: Any) -> Any:
        if isinstance(given, dict) and {"turns", "model_requests"} <= given.keys():
            raise ValueError("turns is the old name of model_requests: give one of them")
        return given

    @model_validator(mode="after")
    def _can_be_met(self) -> When:
        least, most = self.nth or (1, None)
        least = max(least, (self.after or 0) + 1)
        step = self.every or 1
        ends = [end for end in (most, self.first) if end is not None]
        if ends and -(-least // step) * step > min(ends):  # the first multiple from there on
            raise ValueError("it could never be met: no call is left by nth, after, first and every together")
        return self

    def holds(self, moment: Moment, chance: float, dose: float = 1.0) -> bool:
        """``chance``: the keyed draw of this try, in [0, 1). ``dose``: the share of the probability that is
        in force by the entry's outages."""
        if self.at_most is not None and moment.met >= self.at_most:
            return False
        if self.persistent and moment.met:
            return True
        if self.cooldown and moment.met and 0 < moment.calls - moment.last_met <= self.cooldown:
            return False
        share = self.window.share(moment.elapsed_s) if self.window else 1.0
        return (
            self._counted(moment)
            and within(self.model_requests, moment.model_requests)
            and within(self.turn, moment.turn)
            and chance < self.probability * share * dose
        )

    def _counted(self, moment: Moment) -> bool:
        count = moment.calls if self.of == "call" else moment.tries
        return (
            within(self.nth, count)
            and (self.after is None or count > self.after)
            and (self.first is None or count <= self.first)
            and (self.every is None or count % self.every == 0)
        )

    @property
    def counts(self) -> bool:
        """Whether it depends on the order in which calls arrive."""
        limits = (self.nth, self.after, self.first, self.every, self.at_most, self.cooldown)
        return self.persistent or any(limit is not None for limit in limits)

    @property
    def certain(self) -> bool:
        """Whether every eligible try meets the fault, which makes it a canary."""
        return self == When()


def within(span: tuple[int, int | None] | None, count: int) -> bool:
    """Whether the count is in the range; in none it always is."""
    return span is None or (span[0] <= count and (span[1] is None or count <= span[1]))
