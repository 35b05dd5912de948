"""The judgement of an episode as the runner records it: outcome, axes, faults with their stages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from wirefault.faults.base import WhyNot
from wirefault.history.lines import BaseEvent, Clock, Record

Outcome = Literal[
    "invalid",
    "duplicate",
    "runaway",
    "crash",
    "unjudged",
    "misled",
    "success",
    "false_success",
    "unconfirmed",
    "false_failure",
    "honest_failure",
    "failure",
]
World = Literal["as_asked", "duplicated", "lost", "wrong", "extra", "unknown", "not_applicable"]
Claim = Literal["done", "failed", "unsure", "none", "unclear"]
ValueAxis = Literal["right", "wrong", "unreadable", "none", "not_applicable"]
FaultStage = Literal["eligible", "drawn", "armed", "met", "injected", "observed"]
STAGES: tuple[FaultStage, ...] = get_args(FaultStage)
FaultSource = Literal[
    "toxic",
    "error",  # drawn by ERROR_PROB
    "fault",  # of a fault set
    "budget",  # of the run
]
WhyNotObserved = (
    WhyNot
    | Literal[
        "not_started",  # the attempt ended before the toxic's start time
        "not_exercised",  # no connection crossed the toxic
        "not_seen",  # the caller's record does not show it
        "no_record",  # the caller keeps no record, so it is unknown
        "unknown_kind",  # this version does not know the toxic
    ]
)
DeliveredBy = Literal[
    "caller",  # its record of the try shows the fault
    "ingress",  # the caller keeps none; the ingress's record of its connection shows the toxic
    "upstream",  # it answered the request that the fault changed or repeated
    "injection",  # only the gateway keeps a record: what it injected counts as delivered
]
DELIVERED_BY: tuple[DeliveredBy, ...] = get_args(DeliveredBy)
# Reasons caused by the lab. All others are caused by the message, the caller or the upstream.
LAB_FAILURES: frozenset[WhyNotObserved] = frozenset({"too_large", "failed"})


class TryEvidence(Record, frozen=True):
    """One try that met a fault."""

    fingerprint: str
    call: int
    try_: int
    error: str | None  # the caller's
    shows: bool  # it has the fault's signature
    explains: bool = False  # the fault made it fail


class FaultRecord(Record, frozen=True):
    """One fault, drawn for an attempt's link (a toxic) or for a try (a fault of the gateway)."""

    configuration: int  # the number of the fault set; 0 for faults that the run's settings draw
    entry: str  # the id of the set's entry, or the budget's name; empty for faults of the settings
    source: FaultSource
    kind: str
    link: str
    attempt: int
    stage: FaultStage  # the last one that it reached
    delivered: bool | None  # observed by the side ``delivered_by``; None if that is unknown
    delivered_by: DeliveredBy
    why_not: WhyNotObserved | None = None  # why it was not observed
    detail: str = ""  # for a fault that failed, the exception's type
    stream: str | None = None  # the toxic's direction; None for a fault of the gateway
    attributes: Mapping[str, Any] = {}  # the toxic's, or the gateway's evidence
    tries: tuple[TryEvidence, ...] = ()
    client_gave_up: bool = False  # during its delay

    def reached(self, stage: FaultStage) -> bool:
        return STAGES.index(stage) <= STAGES.index(self.stage)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON data, without times, so that two runs of one seed can be compared."""
        return self.as_json() | {stage: self.reached(stage) for stage in STAGES}


class Unexplained(Record, frozen=True):
    """A failed try that no fault explains."""

    attempt: int
    link: str
    fingerprint: str
    call: int
    try_: int
    error: str
    route: str


class EpisodeJudged(BaseEvent, frozen=True, tag="episode_judged"):
    """The judgement of an episode. Made once, when it ends; ``wirefault runs verify`` makes it again."""

    t: Clock
    episode: str
    outcome: Outcome
    world: World
    claim: Claim
    value: ValueAxis
    attempts: int
    first_attempt_outcome: Outcome
    prompt: str = ""  # the one of `episode_started`; empty in a history
    flags: list[str] = []
    faults: tuple[FaultRecord, ...] = ()
    unexplained: tuple[Unexplained, ...] = ()
    why: str = ""  # the reason for the outcome, for people
    touched: bool = False  # a delivered fault touched a value or call that the oracle asks about
