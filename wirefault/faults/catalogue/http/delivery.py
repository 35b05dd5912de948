"""Faults of delivery: lost, duplicated and late requests and replies, hangs, resets, a flapping service."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Literal

from pydantic import Field, model_validator

from wirefault.core.caller_errors import CLOSED, HTTP_ERRORS, TIMEOUT, ErrorKind
from wirefault.dialects.http import Ending, Reply, ReplyInPieces
from wirefault.faults.base import HANG_LIMIT_S, Act, Changed, Fault, HangLimit, Miss, Try
from wirefault.faults.catalogue.errors import error_for
from wirefault.faults.catalogue.http.body import has_body

_Then = Literal["close", "hang"]
_PARTS_SENT = {"after_headers": 0.0, "mid_body": 0.5}  # by the place at which the reply stops


class LoseRequest(Fault):
    """Drop the request: the upstream never sees it, and no reply comes.

    The client cannot tell this from ``lose_reply``. A retry is safe here, but the client does not know.
    """

    name = "lose_request"
    family = "http"
    can_cause = CLOSED | TIMEOUT

    then: _Then = Field("close", description="close the connection, or hang until the client gives up")

    @property
    def causes(self) -> frozenset[ErrorKind]:
        return CLOSED if self.then == "close" else TIMEOUT

    def act(self, tried: Try) -> Act:
        return Act(answer=ReplyInPieces(ending=self.then), evidence={"then": self.then})


class LoseReply(Fault):
    """Drop the reply: the upstream has executed the request, but no reply comes.

    The client cannot tell this from ``lose_request``. Retrying a write without an idempotency key executes
    it twice; without a retry the client may report a failure for a write that succeeded.
    """

    name = "lose_reply"
    family = "http"
    can_cause = CLOSED | TIMEOUT

    then: _Then = Field("close", description="close the connection, or hang until the client gives up")

    @property
    def causes(self) -> frozenset[ErrorKind]:
        return CLOSED if self.then == "close" else TIMEOUT

    def act(self, tried: Try) -> Act:
        return Act(reply=self._lost)

    def _lost(self, reply: Reply) -> Changed:
        evidence = {"then": self.then, "upstream_status": reply.status, "lost_bytes": len(reply.body)}
        return Changed(ReplyInPieces(ending=self.then), evidence)


class Hang(Fault):
    """Stop sending and keep the connection open until the client gives up, or for 65 s.

    ``before_headers``: nothing of the reply is sent. ``after_headers``: only the headers. ``mid_body``: half
    of the body. The upstream has executed the request; with ``forwarded: false`` it never sees it. A client
    with a timeout per read (``requests``) reports a different error for each place. Of one that still waits
    after 65 s (``limit``), the gateway closes the connection, so that the run shows what it does then. Over
    stdio only the client ends the wait.
    """

    name = "hang"
    family = "http"
    can_cause = TIMEOUT | CLOSED

    at: Literal["before_headers", "after_headers", "mid_body"] = Field(
        "before_headers", description="where the reply stops"
    )
    forwarded: bool = Field(True, description="forward the request to the upstream")
    limit: HangLimit = HANG_LIMIT_S

    @property
    def hang_s(self) -> float:
        return self.limit

    @property
    def causes(self) -> frozenset[ErrorKind]:
        return self.can_cause if self.limit else TIMEOUT

    @model_validator(mode="after")
    def _has_a_reply(self) -> Hang:
        if not self.forwarded and self.at != "before_headers":
            raise ValueError("forwarded: false allows only at: before_headers, since there is no reply")
        return self

    def act(self, tried: Try) -> Act:
        if not self.forwarded:
            return Act(answer=ReplyInPieces(ending="hang"), evidence={"at": self.at, "sent": 0})
        return Act(reply=partial(_broken_off, tried, self.at, "hang"))


class Reset(Fault):
    """Reset the connection with a TCP RST.

    ``connect``: as soon as the request is known, without forwarding it. ``after_request``: after the upstream
    has executed it; the reply is lost. ``mid_body``: after half of the body. The client sees "connection
    reset by peer"; through Toxiproxy, which is in front of the gateway in the lab, an RST becomes a plain
    close, which clients report differently ("closed without response").
    """

    name = "reset"
    family = "http"
    can_cause = CLOSED

    at: Literal["connect", "after_request", "mid_body"] = Field("after_request", description="when to reset")

    def act(self, tried: Try) -> Act:
        if self.at == "connect":
            return Act(answer=ReplyInPieces(ending="reset"), evidence={"at": self.at, "sent": 0})
        return Act(reply=partial(_broken_off, tried, self.at, "reset"))


def _broken_off(tried: Try, at: str, ending: Ending, reply: Reply) -> Changed | Miss:
    """The part of the reply that is sent: nothing, or the headers and a part of the body."""
    evidence = {"at": at, "of": len(reply.body), "upstream_status": reply.status}
    if at not in _PARTS_SENT:
        return Changed(ReplyInPieces(ending=ending), {**evidence, "sent": 0})
    if not has_body(tried, reply):
        return Miss("nothing_to_change")
    sent = int(len(reply.body) * _PARTS_SENT[at])
    length = max(len(reply.body), 1)  # of an empty body, too, something is missing
    return Changed(ReplyInPieces(reply, (reply.body[:sent],), ending, length), {**evidence, "sent": sent})


class DuplicateRequest(Fault):
    """Deliver the request several times in a row; the client gets the last reply.

    Retrying proxies and at-least-once queues do this. The client sees nothing unusual. A service without
    idempotency keys executes a write each time.
    """

    name = "duplicate_request"
    family = "http"
    can_cause = HTTP_ERRORS | CLOSED | TIMEOUT

    n: int = Field(2, ge=2, le=10, description="number of deliveries")

    def act(self, tried: Try) -> Act:
        return Act(copies=self.n, evidence={"copies": self.n})


class Flap(Fault):
    """Alternate between down and up: ``fails`` calls fail, then ``passes`` calls pass, and so on.

    Logical calls are counted for each episode, so all tries of one call fail or pass together and a retry
    does not help. Requests of failing calls are not forwarded. The client sees a 503 that comes and
    goes, or a closed connection.
    """

    name = "flap"
    family = "http"
    chooses = True
    can_cause = CLOSED | {"http_5xx"}

    fails: int = Field(1, ge=1, le=10_000, description="number of calls that fail")
    passes: int = Field(1, ge=1, le=10_000, description="number of calls that pass afterwards")
    kind: Literal["unavailable", "bad_gateway", "server_error", "close"] = Field(
        "unavailable", description="how a call fails"
    )

    @property
    def causes(self) -> frozenset[ErrorKind]:
        return CLOSED if self.kind == "close" else self.can_cause - CLOSED

    @property
    def by_order(self) -> bool:
        return True

    def act(self, tried: Try) -> Act | None:
        place = (tried.ordinal - 1) % (self.fails + self.passes)
        if place >= self.fails:
            return None
        evidence = {"kind": self.kind, "ordinal": tried.ordinal}
        if self.kind == "close":
            return Act(answer=ReplyInPieces(ending="close"), evidence=evidence)
        reply = error_for(tried, self.kind)
        return Act(answer=reply, evidence={**evidence, "status": reply.status})


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
    """Delay the request on its way to the upstream.

    The upstream executes the request even if the client has given up: a write after a timeout. Kinds:
    ``fixed`` (``ms``), ``uniform`` (``ms`` ± ``spread_ms``), ``jitter`` (normal distribution around ``ms``
    with standard deviation ``spread_ms``; 0 where that is negative), ``exponential`` (mean ``ms``), ``spike``
    (``ms``, or ``spike_ms`` with probability ``spike_chance``), ``degrading`` (``ms``, plus ``step_ms`` for
    every earlier logical call in the episode). Presets: ``good`` (jitter 20 ± 5 ms), ``moderate`` (jitter 150
    ± 50 ms), ``poor`` (exponential, mean 800 ms, at most 8 s), ``degrading`` (50 ms, plus 200 ms per call, at
    most 10 s), ``spiky`` (30 ms, on average every tenth 3 s). Delays of several faults add up.
    """

    name = "delay"
    family = "http"
    can_cause = TIMEOUT

    preset: _Preset | None = Field(None, description="a preset; excludes all other parameters")
    kind: _Kind = Field("fixed", description="the distribution")
    ms: float = Field(500, ge=0, le=600_000, description="milliseconds")
    spread_ms: float = Field(100, ge=0, le=600_000, description="spread in milliseconds (uniform, jitter)")
    spike_ms: float = Field(3000, ge=0, le=600_000, description="length of a spike in milliseconds (spike)")
    spike_chance: float = Field(0.1, ge=0, le=1, description="probability of a spike (spike)")
    step_ms: float = Field(100, ge=0, le=600_000, description="increase in milliseconds per call (degrading)")
    max_ms: float | None = Field(
        None, ge=0, le=600_000, description="upper limit in milliseconds (null: none)"
    )

    @model_validator(mode="after")
    def _preset_alone(self) -> Delay:
        if self.preset and len(self.model_dump(exclude_defaults=True)) > 1:
            raise ValueError("preset excludes the other parameters: it sets them")
        return self

    @model_validator(mode="after")
    def _limit_above_delay(self) -> Delay:
        name = "spike_ms" if self.kind == "spike" and self.spike_ms > self.ms else "ms"
        least = getattr(self, name)
        if self.max_ms is not None and self.max_ms < least:
            raise ValueError(
                f"max_ms ({self.max_ms:g}) is below {name} ({least:g}): it would shorten each delay"
            )
        return self

    @model_validator(mode="after")
    def _no_negative_delay(self) -> Delay:
        if self.kind == "uniform" and self.spread_ms > self.ms:
            raise ValueError(
                f"spread_ms ({self.spread_ms:g}) is above ms ({self.ms:g}): a delay cannot be negative"
            )
        return self

    @property
    def by_order(self) -> bool:
        kind = PRESETS[self.preset]["kind"] if self.preset else self.kind
        return kind == "degrading"

    def act(self, tried: Try) -> Act | Miss:
        shape = self.model_copy(update=PRESETS[self.preset]) if self.preset else self
        limit = math.inf if shape.max_ms is None else shape.max_ms
        ms = round(min(max(shape._drawn(tried), 0.0), limit), 3)
        if ms == 0:
            return Miss("nothing_to_change")
        return Act(delay=ms / 1000, evidence={"delay_ms": ms})

    def _drawn(self, tried: Try) -> float:
        """Milliseconds for that try, before the upper limit."""
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
