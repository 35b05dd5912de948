"""The data of a run's charts, which it stores at its end. Needs the standard library alone.

All times are seconds since the run's start, all durations milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from wirefault.judging.oracle.outcome import is_success

if TYPE_CHECKING:
    from wirefault.history.judged_events import Claim

CHARTS_FILE = "charts.json"
"""The name of its file in the folder of the history."""

# The cause of a failed try other than a fault: the service itself refused the request (4xx).
REFUSED = "refused"


class ChartsError(ValueError):
    """Nothing to chart; the message says what, where, and what to do."""


@dataclass(frozen=True)
class ChartedTry:
    """One HTTP try as the caller saw it, or the gateway if the caller keeps no record.

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
    planned: int
    length: float
    prompts: tuple[ChartedPrompt, ...]
    tries: tuple[ChartedTry, ...]
    spans: tuple[FaultSpan, ...]
    unfinished: str | None
    links: tuple[str, ...]
    models: tuple[str, ...]
    has_record: bool = True
    """The agent recorded its tries; else they are the gateway's, without the delays of toxics."""
    evidence: str = ""
    """The state of its files, in a few words."""


_TABLES = {"prompts": ChartedPrompt, "tries": ChartedTry, "spans": FaultSpan}


def encode_run(run: RunData) -> bytes:
    """Write a run as JSON; each table has the names of its columns once."""
    tables = {
        name: [[field.name for field in fields(kind)], *(list(vars(row).values()) for row in vars(run)[name])]
        for name, kind in _TABLES.items()
    }
    return json.dumps(vars(run) | tables, separators=(",", ":")).encode() + b"\n"


def decode_run(data: bytes) -> RunData:
    """Read what ``encode_run`` wrote. Raises ``ValueError``, ``TypeError`` or ``KeyError``."""
    read = json.loads(data)
    rows = {}
    for name, kind in _TABLES.items():
        names, *values = read[name]
        rows[name] = tuple(kind(**dict(zip(names, row, strict=True))) for row in values)
    links = {name: tuple(read[name]) for name in ("links", "models")}
    return RunData(**{**read, **rows, **links})


def with_outcomes(run: RunData, outcomes: Mapping[str, str]) -> RunData:
    """The run with other outcomes of some episodes."""
    prompts = (replace(each, outcome=outcomes.get(each.episode, each.outcome)) for each in run.prompts)
    return replace(run, prompts=tuple(prompts))


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
    def witness(self) -> str:
        """Whose record the tries are."""
        return "caller" if all(run.has_record for run in self.runs) else "gateway"

    @property
    def planned(self) -> int:
        return sum(run.planned for run in self.runs)

    @property
    def length(self) -> float:
        return max(run.length for run in self.runs)

    @property
    def several(self) -> bool:
        return len(self.runs) > 1
