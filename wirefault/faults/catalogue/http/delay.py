"""delay: the request goes on later."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import Field, model_validator

from wirefault.core.caller_errors import TIMEOUT
from wirefault.faults.base import Act, Fault, Miss, Try

_Kind = Literal["fixed", "uniform", "exponential", "jitter", "spike", "degrading"]
_Preset = Literal["good", "moderate", "poor", "degrading", "spiky"]
PRESETS: dict[_Preset, dict[str, Any]] = {
    "good": {"kind": "jitter", "ms": 20, "spread_ms": 5},
    "moderate": {"kind": "jitter", "ms": 150, "spread_ms": 50},
    "poor": {"kind": "exponential", "ms": 800, "max_ms": 8000},
    "degrading": {"kind": "degrading", "ms": 50, "step_ms": 200, "max_ms": 10_000},
    "spiky": {"kind": "spike", "ms": 30, "spike_ms": 3000, "spike_chance": 0.1},
}


class Delay(Fault):
    """The request reaches the upstream later; then all goes on as usual.

    The upstream executes the request even if the client has given up: a write after a timeout. Kinds:
    ``fixed`` (``ms``), ``uniform`` (``ms`` ± ``spread_ms``, each value as likely), ``jitter`` (a bell curve
    around ``ms`` whose standard deviation is ``spread_ms``), ``exponential`` (mean ``ms``), ``spike``
    (``ms``, but with chance ``spike_chance`` it is ``spike_ms``), ``degrading`` (``ms``, and ``step_ms``
    more with every logical call in the episode). Presets: ``good`` (jitter 20 ± 5 ms), ``moderate``
    (jitter 150 ± 50 ms), ``poor`` (exponential, mean 800 ms, at most 8 s), ``degrading`` (50 ms, 200 ms more
    each call, at most 10 s), ``spiky`` (30 ms, every tenth 3 s on average). Delays of several faults add up.
    """

    name = "delay"
    family = "http"
    can_cause = TIMEOUT

    preset: _Preset | None = Field(None, description="one of the presets; instead of all others")
    kind: _Kind = Field("fixed", description="how long it is")
    ms: float = Field(500, ge=0, le=600_000, description="milliseconds")
    spread_ms: float = Field(100, ge=0, le=600_000, description="milliseconds around it (uniform, jitter)")
    spike_ms: float = Field(3000, ge=0, le=600_000, description="milliseconds of a spike (spike)")
    spike_chance: float = Field(0.1, ge=0, le=1, description="chance of a spike (spike)")
    step_ms: float = Field(100, ge=0, le=600_000, description="milliseconds more for each call (degrading)")
    max_ms: float = Field(60_000, ge=0, le=600_000, description="milliseconds at most")

    @model_validator(mode="after")
    def _preset_alone(self) -> Delay:
        if self.preset and len(self.model_dump(exclude_defaults=True)) > 1:
            raise ValueError("preset stands alone: it sets the other parameters")
        return self

    @property
    def by_order(self) -> bool:
        kind = PRESETS[self.preset]["kind"] if self.preset else self.kind
        return kind == "degrading"

    def act(self, tried: Try) -> Act | Miss:
        shape = self.model_copy(update=PRESETS[self.preset]) if self.preset else self
        ms = round(min(max(shape._drawn(tried), 0.0), shape.max_ms), 3)
        if ms == 0:
            return Miss("nothing_to_change")
        return Act(delay=ms / 1000, evidence={"delay_ms": ms})

    def _drawn(self, tried: Try) -> float:
        """Milliseconds for that try, not yet bounded."""
        match self.kind:
            case "uniform":
                return self.ms + (2 * tried.chance("delay") - 1) * self.spread_ms
            case "jitter":
                return self.ms + _normal(tried) * self.spread_ms
            case "exponential":
                return -math.log(1 - tried.chance("delay")) * self.ms
            case "spike":
                return self.spike_ms if tried.chance("spike") < self.spike_chance else self.ms
            case "degrading":
                return self.ms + (tried.ordinal - 1) * self.step_ms
            case _:
                return self.ms


def _normal(tried: Try) -> float:
    """A draw of the normal distribution (by the Box-Muller transform)."""
    radius = math.sqrt(-2 * math.log(1 - tried.chance("delay")))
    return radius * math.cos(2 * math.pi * tried.chance("delay-angle"))
