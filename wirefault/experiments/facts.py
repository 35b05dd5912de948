"""The facts of a run, episode by episode; figures of an arm are computed from them.

They are small: only one run of an arm has to be in memory at a time. They are written to
``logs/experiments/ID/facts`` when the experiment ends.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from wirefault.experiments.logical_calls import FailedCalls, FailedTries, LogicalCall
from wirefault.experiments.measured import OfEpisode
from wirefault.experiments.outages import EpisodeOutages
from wirefault.history.events import (
    EpisodeJudged,
    RunFinished,
)
from wirefault.history.judged_events import (
    Finding,
)
from wirefault.judging.findings.conduct import Conduct
from wirefault.judging.findings.outcomes import with_outcome
from wirefault.judging.findings.rules import RULES
from wirefault.judging.judge import ByControl
from wirefault.judging.writes import SentCount, WriteCount


def why_cut_short(run_id: str, finished: RunFinished | None) -> str:
    """Why a run ended early; empty if it completed."""
    if finished is not None and finished.completed:
        return ""
    return f"the run {run_id} ended early: {finished.reason if finished else 'it was killed'}"


_NONE_FAILED = FailedCalls()
_NO_TRIES = FailedTries()
_NOTES = frozenset(rule.name for rule in RULES if rule.severity == "note")
_NOTHING_FAILED = EpisodeOutages((), whole=True)
_NO_CONTROL = ByControl()


class EpisodeFacts(Struct, frozen=True, omit_defaults=True):
    """The judgement of an episode, and the values of figures that it does not have."""

    judged: EpisodeJudged
    """In a compared arm with the control's outcome, and without findings about what the control does."""
    ended: bool = True
    """It was judged during its run."""
    invalid: str = ""
    """The reason recorded when its last attempt was healed."""
    seconds: tuple[float, ...] = ()
    """Of each attempt."""
    model_requests: int = 0
    budgets_spent: int = 0
    budgets_unknown: bool = False
    budget_strikes: int = 0
    """Requests refused or slowed, and episodes ended, by budgets."""
    outages: EpisodeOutages = _NOTHING_FAILED
    drawn: tuple[str, ...] = ()
    """Names of drawn faults."""
    shadows: tuple[tuple[str, str], ...] = ()
    """Arm and name of recorded faults."""
    asserted: tuple[OfEpisode, ...] = ()
    """One entry for each assertion of the arm."""
    writes: tuple[WriteCount, ...] = ()
    sends: tuple[SentCount, ...] = ()
    """The requests that were sent several times."""
    conduct: Conduct | None = None
    """Writes and answer of its first attempt."""
    failed_calls: FailedCalls = _NONE_FAILED
    unseen_writes: str = ""
    """Why writes on a link may not be in the history."""
    is_unchecked: bool = False
    """It has a claim that no oracle checks."""
    calls: tuple[LogicalCall, ...] = ()
    tries: FailedTries = _NO_TRIES
    overshoot: float | None = None
    """The largest share by which it exceeded one of its budgets; None without budgets or if unknown."""
    retry_after: tuple[int, int] = (0, 0)
    """How many requests refused with Retry-After were sent again in time, and of how many."""
    control: ByControl = _NO_CONTROL

    @property
    def episode(self) -> str:
        return self.judged.episode

    @property
    def findings(self) -> Sequence[Finding]:
        """Its findings with those by comparison, and with its outcome's; none that its rule lowered."""
        of_rules = [each for each in self.judged.findings if each.severity != "note" or each.rule in _NOTES]
        broken = self.judged.by_outcome
        counted = None if broken is not None and broken.severity == "note" else broken
        return with_outcome([*of_rules, *self.control.differences], counted)


def planned_faults(control: Iterable[EpisodeFacts], arm: str) -> Mapping[str, set[str]]:
    """For each fault the episodes that it would have hit in that arm, by the control's shadows."""
    planned: defaultdict[str, set[str]] = defaultdict(set)
    for episode in control:
        for of_arm, fault in episode.shadows:
            if of_arm == arm:
                planned[fault].add(episode.episode)
    return planned


class RunFacts(Struct, frozen=True, omit_defaults=True):
    """The facts of one run.

    ``problem``: why it is unreadable or ended early; empty if complete. ``invalid_because``: see ``Summary``.
    ``toxics_left``: at its end, None if unknown. ``decided_by``: dependencies on order, clock or a foreign
    model.
    """

    run_id: str
    episodes: tuple[EpisodeFacts, ...] = ()
    prompts: int = 0
    problem: str = ""
    is_readable: bool = True
    invalid_because: tuple[str, ...] = ()
    toxics_left: int | None = None
    decided_by: tuple[str, ...] = ()
