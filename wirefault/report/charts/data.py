"""The data of the charts. All times are seconds since the run's start, all durations milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wirefault.history.judged_events import Claim
from wirefault.judging.oracle.outcome import is_success

# The cause of a failed try other than a fault: the service itself refused the request (4xx).
REFUSED = "refused"


@dataclass(frozen=True)
class ChartedTry:
    """One HTTP try as the caller saw it.

    ``fault``: the kind of fault that it met, if any. ``cause`` of a failed one: the kind of fault that
    explains it, ``REFUSED``, or None if nothing in the lab does.
    """

    link: str
    start: float
    end: float
    ms: float
    error: str | None
    fault: str | None
    cause: str | None
    direct: bool


@dataclass(frozen=True)
class FaultSpan:
    """A fault on a link while it could act: a toxic while it was armed, an HTTP error during its request."""

    link: str
    kind: str
    start: float
    end: float
    toxic: bool


@dataclass(frozen=True)
class ChartedPrompt:
    """One episode. ``outcome`` (the last verdict) and ``judged`` (the first) are None before any verdict.

    ``response_ms`` is the agent's time in all attempts together, without arming and healing; ``ended``: when
    the last one ended. ``crossed_fault``: at least one try met a fault.
    """

    episode: str
    outcome: str | None
    judged: float | None
    response_ms: float | None
    ended: float | None
    crossed_fault: bool
    claim: Claim | None = None
    """The agent's claim, if no oracle checks it."""

    @property
    def counts(self) -> bool:
        return is_success(self.outcome) is not None


@dataclass(frozen=True)
class RunData:
    """One run. ``links`` of its wiring, by name; ``models``: its model links.

    ``planned`` prompts; ``unfinished`` says why the run did not end normally, None if it did.
    """

    run_id: str
    seed: int
    subject: str
    settings: Mapping[str, Any]
    planned: int
    length: float
    prompts: tuple[ChartedPrompt, ...]
    tries: tuple[ChartedTry, ...]
    spans: tuple[FaultSpan, ...]
    unfinished: str | None
    links: tuple[str, ...]
    models: tuple[str, ...]
    evidence: str = ""
    """The state of its files, in a few words."""


@dataclass(frozen=True)
class Selection:
    """The runs in a set of charts, oldest first, on one axis of seconds since each start."""

    runs: tuple[RunData, ...]

    @property
    def prompts(self) -> list[ChartedPrompt]:
        return [prompt for run in self.runs for prompt in run.prompts]

    @property
    def tries(self) -> list[ChartedTry]:
        return [tried for run in self.runs for tried in run.tries]

    @property
    def spans(self) -> list[FaultSpan]:
        return [span for run in self.runs for span in run.spans]

    @property
    def links(self) -> list[str]:
        """Return the names of the links of all runs, in the order of their wirings."""
        return list(dict.fromkeys(name for run in self.runs for name in run.links))

    @property
    def models(self) -> list[str]:
        """Return the names of the model links."""
        return list(dict.fromkeys(name for run in self.runs for name in run.models))

    @property
    def planned(self) -> int:
        return sum(run.planned for run in self.runs)

    @property
    def length(self) -> float:
        return max(run.length for run in self.runs)

    @property
    def several(self) -> bool:
        return len(self.runs) > 1
