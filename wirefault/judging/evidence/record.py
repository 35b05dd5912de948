"""What became of one fault: how far it came, why it came no further, and which tries show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from wirefault.faults.base import WhyNot

FaultStage = Literal["eligible", "drawn", "armed", "met", "injected", "observed"]
STAGES: tuple[FaultStage, ...] = get_args(FaultStage)
FaultSource = Literal["toxic", "error", "fault", "budget"]
WhyNotObserved = (
    WhyNot
    | Literal[
        "not_started",  # the attempt ended before the toxic's time had come
        "not_exercised",  # no connection crossed the toxic
        "not_seen",  # the caller's record does not show it
        "no_record",  # the caller keeps no record, so nobody can tell
        "unknown_kind",  # this version knows no such toxic, so it cannot tell
    ]
)
DeliveredBy = Literal[
    "caller",  # its record of the try shows the fault
    "ingress",  # the caller keeps none; the ingress's record of its connection shows the toxic
    "upstream",  # it answered the request that the fault changed or repeated
    "injection",  # nobody else keeps a record: what the gateway injected counts as delivered
]
DELIVERED_BY: tuple[DeliveredBy, ...] = get_args(DeliveredBy)
# Of these the lab is the cause; any other reason lies in the message, the caller or the upstream.
LAB_FAILURES: frozenset[WhyNotObserved] = frozenset({"too_large", "failed"})


@dataclass(frozen=True)
class TryEvidence:
    """One try that met a fault, whether it shows the fault's signature, and whether the fault explains its
    failure. ``error`` is the caller's."""

    fingerprint: str
    call: int
    try_: int
    error: str | None
    shows: bool
    explains: bool = False


@dataclass(frozen=True)
class FaultRecord:
    """One fault, drawn for an attempt's link (a toxic) or for a try (a fault of the gateway).

    ``entry`` is the id of the fault set's entry, and ``configuration`` the number of that set; what the run's
    own settings draw has no entry and configuration 0. ``source``: a toxic, ``ERROR_PROB`` (``error``), a
    fault set's ``fault``, or a ``budget`` of the run's, whose entry is its name. ``stage`` is the last that
    it reached, and so it reached all before it. ``delivered``: observed by the side that ``delivered_by``
    names; None if that cannot be known. ``why_not`` says why it was not observed; ``detail``: of a fault that
    failed, the exception's type. ``attributes``: a toxic's, or the evidence of what the gateway did.
    """

    configuration: int
    entry: str
    source: FaultSource
    kind: str
    link: str
    attempt: int
    stage: FaultStage
    delivered: bool | None
    delivered_by: DeliveredBy
    why_not: WhyNotObserved | None = None
    detail: str = ""
    stream: str | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    tries: tuple[TryEvidence, ...] = ()

    def reached(self, stage: FaultStage) -> bool:
        return STAGES.index(stage) <= STAGES.index(self.stage)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; free of times, so that it can be compared between two runs of one seed."""
        return asdict(self) | {stage: self.reached(stage) for stage in STAGES}


@dataclass(frozen=True)
class Unexplained:
    """A try that failed although no fault of the lab explains it."""

    attempt: int
    link: str
    fingerprint: str
    call: int
    try_: int
    error: str
    route: str


@dataclass(frozen=True)
class Evidence:
    faults: tuple[FaultRecord, ...] = ()
    unexplained: tuple[Unexplained, ...] = ()
