"""The strategies that the setting ``RECOVERY`` switches on, their parameters and its parser. Pure.

``retry(backoff=jitter, tries=4), breaker(failures=3)``: names separated by commas, each with its optional
parameters in brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from wirefault.core.errors import nearest

NONE = "none"
_STRATEGY = re.compile(r"\s*([^\s(),]+)\s*(?:\(([^()]*)\))?\s*")
Seconds = Annotated[float, Field(gt=0, le=600, allow_inf_nan=False)]
Switch = Literal["on", "off"]


class Strategy(BaseModel):
    """A strategy and its parameters. ``str`` returns its canonical text, without parameters at defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: ClassVar[str]

    def __str__(self) -> str:
        fields = type(self).model_fields
        values = {_parameter(name, fields[name]): (value, fields[name].default) for name, value in self}
        changed = (f"{name}={_text(value)}" for name, (value, default) in values.items() if value != default)
        return f"{self.name}({joined})" if (joined := ", ".join(changed)) else self.name


class Retry(Strategy):
    """Send a failed tool request again after a wait."""

    name: ClassVar[str] = "retry"

    backoff: Literal["constant", "exponential", "jitter"] = Field(
        "jitter",
        description="the waits: all `base`, doubled each time, or a random part of that (full jitter)",
    )
    tries: int = Field(3, ge=1, le=20, description="requests of one tool call")
    base: Seconds = Field(0.05, description="seconds of the first wait")
    longest: Seconds = Field(5.0, description="seconds of the longest wait")
    retry_after: Switch = Field(
        "on", description="wait as long as Retry-After says; above RETRY_AFTER_MAX the call fails"
    )
    budget: int = Field(0, ge=0, le=1000, description="retries of all calls of an attempt; 0: no limit")
    model: int = Field(0, ge=0, le=10, description="retries of one model call, above the client's own")


class Breaker(Strategy):
    """Send no request to a link after several failures in a row, until one probe succeeds."""

    name: ClassVar[str] = "breaker"

    failures: int = Field(3, ge=1, le=100, description="failures in a row that open it")
    seconds: Seconds = Field(
        5.0, description="seconds for which it stays open before it lets a probe through"
    )
    shared: Literal["link", "run"] = Field(
        "link", description="one breaker for each link, or one for all links of the run"
    )


class Hedge(Strategy):
    """Send a read a second time if its reply is slow, and take the first reply. Writes are never hedged."""

    name: ClassVar[str] = "hedge"

    after: Seconds = Field(0.2, description="seconds without a reply after which the second request is sent")


class Deadline(Strategy):
    """Pass the time until which a reply is wanted on to the tool, which starts no work after it."""

    name: ClassVar[str] = "deadline"

    seconds: Seconds = Field(2.0, description="seconds for one tool call with all its requests")


class Fallback(Strategy):
    """Answer by something else after the last failure."""

    name: ClassVar[str] = "fallback"

    model: str = Field("", max_length=200, description="name of another model at the same server")
    tool: Literal["none", "direct", "search"] = Field(
        "none", description="another way: the tool's port past the proxy, or a web search in place of a read"
    )
    answer: Literal["none", "last_good", "degraded"] = Field(
        "last_good",
        description="the last good answer of the same read, marked as old, or a marked answer without data",
    )


class Keys(Strategy):
    """Send an ``Idempotency-Key`` with each write."""

    name: ClassVar[str] = "keys"

    by: Literal["step", "arguments", "none"] = Field(
        "step", description="one key for each step of the run, for each tool with its arguments, or no key"
    )


class Verify(Strategy):
    """Read the state after a write whose reply was lost, in place of the same write again."""

    name: ClassVar[str] = "verify"

    reads: int = Field(1, ge=1, le=10, description="reads before the write counts as not carried out")
    pause: float = Field(0.0, ge=0, le=60, description="seconds before each read")


class Checks(Strategy):
    """Check tool results; a result that fails a check counts as a failed request."""

    name: ClassVar[str] = "checks"

    schema_: Switch = Field(
        "on", alias="schema", description="whether it has the tool's fields, of their types"
    )
    plausibility: Switch = Field(
        "on", description="whether its values are possible, and belong to the request"
    )
    second: Switch = Field("off", description="whether a second read, sent with each read, agrees")


class LoopBreaker(Strategy):
    """Refuse a tool call that repeats the calls before it."""

    name: ClassVar[str] = "loop_breaker"

    repeats: int = Field(3, ge=1, le=100, description="equal calls with equal results before it refuses")


class Checkpoint(Strategy):
    """Store the conversation at each step; an attempt that failed or was killed continues from there."""

    name: ClassVar[str] = "checkpoint"

    durability: Literal["exit", "async", "sync"] = Field(
        "async", description="store at the end, beside the next step, or before the next step"
    )


class Handoff(Strategy):
    """Hand a call over to a person: a write that may have been carried out, or requests that all failed."""

    name: ClassVar[str] = "handoff"

    wait: Seconds = Field(5.0, description="seconds to wait for an answer")
    on_timeout: Literal["refuse", "proceed", "degrade"] = Field(
        "refuse",
        description="without an answer: the call fails, is made again, or is left out of the answer",
    )
    answers: str = Field(
        "",
        max_length=200,
        description="empty: a person answers; approve, deny or never to all, or a file with rules",
    )


@dataclass(frozen=True)
class Recovery:
    """The strategies in force; None for those that are off."""

    retry: Retry | None = None
    breaker: Breaker | None = None
    hedge: Hedge | None = None
    deadline: Deadline | None = None
    fallback: Fallback | None = None
    keys: Keys | None = None
    verify: Verify | None = None
    checks: Checks | None = None
    loop_breaker: LoopBreaker | None = None
    checkpoint: Checkpoint | None = None
    handoff: Handoff | None = None
    as_shipped: bool = False
    """No choice was made: the agent retries and sends keys as TOOL_LIMIT, IDEMPOTENCY and FALLBACK say."""

    def __iter__(self) -> Iterator[Strategy]:
        strategies = (getattr(self, name) for name in STRATEGIES)
        return (strategy for strategy in strategies if strategy is not None)

    def __str__(self) -> str:
        """Return the canonical text, which parses to equal strategies."""
        return "" if self.as_shipped else ", ".join(map(str, self)) or NONE


AS_SHIPPED = Recovery(as_shipped=True)
STRATEGIES: Mapping[str, type[Strategy]] = {
    kind.name: kind
    for kind in (
        *(Retry, Breaker, Hedge, Deadline, Fallback, Keys, Verify, Checks, LoopBreaker, Checkpoint, Handoff),
    )
}


def parse_recovery(text: str) -> Recovery:
    """Parse the setting's text: empty for the agent as it ships, ``none`` for no strategy at all.

    Raises ``ValueError`` that names the mistake and what is valid.
    """
    if not text.strip():
        return AS_SHIPPED
    if text.strip() == NONE:
        return Recovery()
    strategies: dict[str, Strategy] = {}
    for name, parameters in _parts(text):
        if name == NONE:
            raise ValueError(f"{NONE!r} must be alone, not in {text.strip()!r}")
        if name not in STRATEGIES:
            raise ValueError(f"unknown strategy {name!r}{nearest(name, STRATEGIES)}")
        if name in strategies:
            raise ValueError(f"duplicate strategy {name!r}")
        strategies[name] = _strategy(STRATEGIES[name], parameters)
    return Recovery(**cast(dict[str, Any], strategies))


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Yield each name with the text in its brackets."""
    at = 0
    while True:
        part = _STRATEGY.match(text, at)
        if part is None or text[part.end() : part.end() + 1] not in ("", ","):
            raise ValueError(
                f"cannot read {text[at:].strip()!r}; write name(parameter=value, ...), for example"
                " retry(backoff=jitter, tries=4), breaker"
            )
        yield part[1], part[2] or ""
        at = part.end() + 1
        if part.end() == len(text):
            return


def _strategy(kind: type[Strategy], parameters: str) -> Strategy:
    values: dict[str, str] = {}
    names = [_parameter(name, field) for name, field in kind.model_fields.items()]
    for part in parameters.split(",") if parameters.strip() else ():
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value:
            raise ValueError(f"{kind.name}: {part.strip()!r} must be parameter=value")
        if name not in names:
            raise ValueError(f"{kind.name}: unknown parameter {name!r}{nearest(name, names)}")
        if name in values:
            raise ValueError(f"{kind.name}: duplicate parameter {name!r}")
        values[name] = value
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        [first, *_] = error.errors(include_url=False)
        name = str(first["loc"][0])
        reason = first["msg"].removeprefix("Input ")
        raise ValueError(f"{kind.name}: {name} {reason}, not {values[name]!r}") from None


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _parameter(name: str, field: FieldInfo) -> str:
    return field.alias or name
