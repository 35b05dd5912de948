"""The record of one fault: the stage that it reached, why it stopped there, and the tries that show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from wirefault.faults.base import WhyNot

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


@dataclass(frozen=True)
class TryEvidence:
    """One try that met a fault."""

    fingerprint: str
    call: int
    try_: int
    error: str | None  # the caller's
    shows: bool  # it has the fault's signature
    explains: bool = False  # the fault made it fail


@dataclass(frozen=True)
class FaultRecord:
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
    attributes: Mapping[str, Any] = field(default_factory=dict)  # the toxic's, or the gateway's evidence
    tries: tuple[TryEvidence, ...] = ()
    client_gave_up: bool = False  # during its delay

    def reached(self, stage: FaultStage) -> bool:
        return STAGES.index(stage) <= STAGES.index(self.stage)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON data, without times, so that two runs of one seed can be compared."""
        return asdict(self) | {stage: self.reached(stage) for stage in STAGES}


@dataclass(frozen=True)
class Unexplained:
    """A failed try that no fault explains."""

    attempt: int
    link: str
    fingerprint: str
    call: int
    try_: int
    error: str
    route: str


@dataclass(frozen=True)
class Evidence:
    """The evidence of one episode."""

    faults: tuple[FaultRecord, ...] = ()
    unexplained: tuple[Unexplained, ...] = ()
