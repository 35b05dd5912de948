"""The judgement of an episode as the runner records it: outcome, axes, faults, findings, costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from msgspec.structs import replace

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


Severity = Literal[
    "harmful",  # something was done twice, leaked or falsely claimed
    "risky",  # no harm here, but possible harm next time
    "wasteful",  # it costs time, money or a server's goodwill
    "note",  # information, not a failure
]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


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


class Finding(Record, frozen=True):
    """One sentence about an episode, with the ids of the events that show it.

    ``wirefault runs verify RUN --event ID`` prints the event of an id.
    """

    rule: str
    severity: Severity
    text: str
    episode: str = ""
    evidence: tuple[str, ...] = ()
    headline: str = ""  # who did what, for people who know nothing of the run yet
    client: str = ""  # the faulted request's: product and version, as it names itself


class Costs(Record, frozen=True):
    """The cost of an episode's requests. Tokens and USD are sums over the replies that have them."""

    requests: int = 0
    replies: int = 0  # of models
    uncounted: int = 0  # requests to models that may have used tokens which no reply reports
    tokens_in: int | None = None
    tokens_out: int | None = None
    usd: float | None = None  # of the models that have a price
    unpriced: tuple[str, ...] = ()  # the models without one; empty without prices

    @property
    def tokens(self) -> int | None:
        """In and out; None if no reply reports any."""
        known = [count for count in (self.tokens_in, self.tokens_out) if count is not None]
        return sum(known) if known else None


class EpisodeJudged(BaseEvent, frozen=True, tag="episode_judged"):
    """The judgement of an episode. Made once, when it ends; ``wirefault runs verify`` makes it again.

    A finding needs the events of its episode alone, so it is part of the episode's judgement. The control of
    an experiment, which overrules findings, is in other runs; ``experiments.facts`` has the comparison.
    """

    t: Clock
    episode: str
    outcome: Outcome
    world: World = "not_applicable"
    claim: Claim = "done"
    value: ValueAxis = "not_applicable"
    attempts: int = 1
    first_attempt_outcome: Outcome | None = None  # None in a history: as ``outcome``
    prompt: str = ""  # the one of `episode_started`; empty in a history
    flags: list[str] = []
    faults: tuple[FaultRecord, ...] = ()
    unexplained: tuple[Unexplained, ...] = ()
    why: str = ""  # the reason for the outcome, for people
    touched: bool = False  # a delivered fault touched a value or call that the oracle asks about
    findings: tuple[Finding, ...] = ()  # of the rules, the gravest first
    by_outcome: Finding | None = None  # the one that its outcome is
    costs: Costs = Costs()

    def delivered(self, known: bool | None = True) -> int:
        """The number of its faults that were delivered (True), were not, or may have been (None).

        A budget's refusals are not faults.
        """
        return sum(fault.delivered is known and fault.source != "budget" for fault in self.faults)

    def to_history(self, t: float) -> EpisodeJudged:
        """The event to record, without what the history has elsewhere."""
        first = self.first_attempt_outcome
        return replace(
            self,
            t=t,
            prompt="",
            first_attempt_outcome=None if first == self.outcome else first,
            findings=tuple(replace(each, episode="") for each in self.findings),
            by_outcome=self.by_outcome and replace(self.by_outcome, episode=""),
        )

    def from_history(self, prompt: str, run_id: str = "") -> EpisodeJudged:
        """The whole judgement. ``run_id``: of the run that the ids of events are to begin with."""

        def whole(finding: Finding) -> Finding:
            evidence = tuple(f"{run_id}/{id}" for id in finding.evidence) if run_id else finding.evidence
            return replace(finding, episode=self.episode, evidence=evidence)

        return replace(
            self,
            prompt=prompt,
            first_attempt_outcome=self.first_attempt_outcome or self.outcome,
            findings=tuple(map(whole, self.findings)),
            by_outcome=self.by_outcome and whole(self.by_outcome),
        )
