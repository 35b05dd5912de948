"""The facts of a run, episode by episode; figures of an arm are computed from them.

They are small: only one run of an arm has to be in memory at a time. They are written to
``logs/experiments/ID/facts`` when the experiment ends.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from msgspec import Struct

from wirefault.experiments.assertions.episode_view import EpisodeView, episode_views
from wirefault.experiments.assertions.on_arm import OfEpisode, assert_on_episode
from wirefault.experiments.assertions.registry import AssertionEntry, parse_assertion
from wirefault.experiments.logical_calls import FailedCalls, FailedTries, LogicalCall, calls_in
from wirefault.experiments.outages import EpisodeOutages, outages_in
from wirefault.history.events import (
    AttemptArmed,
    AttemptEnded,
    AttemptHealed,
    BudgetSpent,
    BudgetUnknown,
    EpisodeJudged,
    EpisodeStarted,
    Event,
    Exchange,
    RunFinished,
    WentPastLab,
)
from wirefault.history.judged_events import (
    Costs,
    FaultRecord,
    Finding,
)
from wirefault.history.reader import with_ids
from wirefault.judging.findings.conduct import Conduct, conduct_in
from wirefault.judging.findings.outcomes import with_outcome
from wirefault.judging.findings.retries import SENT_AGAIN, kept_retry_after
from wirefault.judging.findings.rules import RULES
from wirefault.judging.findings.writes import WRITE_REPEATED
from wirefault.judging.judge import ByControl, RunJudgement, judge_identified
from wirefault.judging.rates import is_unchecked_claim
from wirefault.judging.reproducible import what_decides
from wirefault.judging.trace import EpisodeTrace
from wirefault.judging.writes import SentCount, WriteCount, sent_counts, write_counts
from wirefault.settings.budgets import Budgets, Price, load_budgets, load_prices
from wirefault.toxiproxy.planned import PlannedToxic


@dataclass(frozen=True)
class RunVerdicts:
    """The outcomes of a run's completed episodes, by key, in their order.

    ``whole``: the run completed. ``reasons``: why episodes were invalid, where known.
    """

    whole: bool
    outcomes: Mapping[str, str]
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CountingRuns:
    """``source``: the run that each episode counts from; ``invalid``: in how many runs an episode was
    invalid; ``superseded``: a line for each invalid episode that was run again.
    """

    source: Mapping[str, str]
    invalid: Mapping[str, int]
    superseded: tuple[str, ...]


def why_cut_short(run_id: str, finished: RunFinished | None) -> str:
    """Why a run ended early; empty if it completed."""
    if finished is not None and finished.completed:
        return ""
    return f"the run {run_id} ended early: {finished.reason if finished else 'it was killed'}"


def counting_runs(runs: Mapping[str, RunVerdicts]) -> CountingRuns:
    """Choose the run of each episode: the first in which it is valid, else the last. Runs are in their order.

    Invalid episodes of a run that ended early did not complete: the same cause broke both.
    """
    source: dict[str, str] = {}
    invalid: dict[str, int] = {}
    left: dict[str, str] = {}
    superseded: list[str] = []
    for run_id, run in runs.items():
        for episode, outcome in run.outcomes.items():
            if episode in source and episode not in invalid:
                continue  # already judged
            earlier = left.pop(episode, source.get(episode))
            if earlier is not None:
                why = runs[earlier].reasons.get(episode) or "see its history"
                superseded.append(f"{episode} in {earlier}: {why}")
            if outcome != "invalid":
                source[episode] = run_id
                invalid.pop(episode, None)
            elif run.whole:
                source[episode] = run_id
                invalid[episode] = invalid.get(episode, 0) + 1
            else:
                left[episode] = run_id
                source.pop(episode, None)
                invalid.pop(episode, None)
    return CountingRuns(source, invalid, tuple(superseded))


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
    def deliveries(self) -> Counter[bool | None]:
        """The number of its faults by whether they were delivered; None: unknown."""
        return Counter(fault.delivered for fault in self.judged.faults if fault.source != "budget")

    @property
    def findings(self) -> Sequence[Finding]:
        """Its findings with those by comparison, and with its outcome's; none that its rule lowered."""
        of_rules = [each for each in self.judged.findings if each.severity != "note" or each.rule in _NOTES]
        return with_outcome([*of_rules, *self.control.differences], self.judged.by_outcome)


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


def facts_of(
    run_id: str, events: Sequence[Event], entries: Sequence[AssertionEntry] = (), *, runs_code: bool = True
) -> RunFacts:
    """Compute the facts of a run and check the assertions ``entries``, functions only if ``runs_code``.

    Raises ``ValueError`` without its beginning.
    """
    return facts_in(run_id, judged_run(run_id, events), entries, runs_code)


def facts_in(
    run_id: str, judgement: RunJudgement, entries: Sequence[AssertionEntry], runs_code: bool
) -> RunFacts:
    assertions = [parse_assertion(entry) for entry in entries]
    views = {view.episode: view for view in episode_views(judgement)} if assertions else {}
    outages = outages_in(judgement.traces.values())
    settings = judgement.started.settings
    prices = load_prices(str(settings.get("prices", "")))
    budgets = load_budgets(str(settings.get("budgets", "")))
    finished = judgement.finished
    return RunFacts(
        run_id,
        tuple(
            _facts(
                judged,
                judgement.traces[judged.episode],
                outages[judged.episode],
                prices,
                budgets,
                tuple(
                    assert_on_episode(assertion, views.get(judged.episode), runs_code=runs_code)
                    for assertion in assertions
                ),
            )
            for judged in judgement.episodes
        ),
        judgement.started.prompts,
        why_cut_short(run_id, finished),
        invalid_because=tuple(judgement.valid_account.invalid_because),
        toxics_left=finished.toxics_left if finished else None,
        decided_by=tuple(what_decides(judgement)),
    )


def views_in(run_id: str, events: Sequence[Event]) -> list[EpisodeView]:
    """The views of a run's episodes; event ids begin with the run id."""
    return episode_views(judged_run(run_id, events))


def judged_run(run_id: str, events: Sequence[Event]) -> RunJudgement:
    return judge_identified([(f"{run_id}/{id}", event) for id, event in with_ids(events)])


def _facts(
    judged: EpisodeJudged,
    trace: EpisodeTrace,
    outages: EpisodeOutages,
    prices: Mapping[str, Price],
    budgets: Budgets | None,
    asserted: tuple[OfEpisode, ...],
) -> EpisodeFacts:
    events = trace.events
    calls, failed_calls, tries = calls_in(trace, prices, whole=outages.whole)
    spent = [event for event in events if isinstance(event, BudgetSpent)]
    reasons = [event.invalid for event in events if isinstance(event, AttemptHealed) and event.invalid]
    writes, sends = write_counts(trace), sent_counts(trace)
    graver = [finding for finding in judged.findings if finding.severity != "note"]
    repeats = [finding for finding in graver if finding.rule == WRITE_REPEATED.name]
    sent_again = [finding for finding in graver if finding.rule in SENT_AGAIN]
    has_oracle = any(isinstance(event, EpisodeStarted) and event.expect is not None for event in events)
    return EpisodeFacts(
        judged,
        any(isinstance(event, EpisodeJudged) for event in events),
        reasons[-1] if reasons else "",
        tuple(event.ms / 1000 for event in events if isinstance(event, AttemptEnded)),
        sum(isinstance(event, Exchange) and event.of_model for event in events),
        len(spent),
        any(isinstance(event, BudgetUnknown | WentPastLab) for event in events),
        sum(event.of_subject for event in spent) + _struck_by_budgets(judged.faults),
        outages,
        tuple(sorted(set(_drawn(events)))),
        tuple(sorted(set(_shadows(events)))),
        asserted,
        tuple(_with_cause(count, repeats) for count in writes if count.executed + count.maybe),
        tuple(_with_cause(count, sent_again) for count in sends),
        conduct_in(trace, [id for finding in repeats for id in finding.evidence]),
        failed_calls,
        _unseen_writes(trace),
        is_unchecked_claim(judged.outcome, judged.claim, has_oracle),
        calls,
        tries,
        _overshoot(events, budgets, judged.costs),
        kept_retry_after(trace),
    )


def _overshoot(events: Iterable[Event], budgets: Budgets | None, costs: Costs) -> float | None:
    """The largest share by which the episode exceeded one of its budgets; 0 if it kept them.

    The request that reaches a limit of tokens or cost is forwarded, since its usage is known only afterwards.
    """
    limits = {} if budgets is None else budgets.episode.model_dump(exclude_none=True)
    events = list(events)
    if not limits or any(isinstance(event, BudgetUnknown | WentPastLab) for event in events):
        return None
    used = {
        event.budget.partition(".")[2]: event.used
        for event in events
        if isinstance(event, BudgetSpent) and event.budget.startswith("episode.")
    }
    used["tokens"] = max(used.get("tokens", 0), costs.tokens or 0)
    used["cost"] = max(used.get("cost", 0), costs.usd or 0)
    return float(max(0.0, *(used.get(name, 0) / limit - 1 for name, limit in limits.items())))


def _unseen_writes(trace: EpisodeTrace) -> str:
    """Which connections to links that take writes could not be read; empty if there are none."""
    writing = {link.name for link in trace.links if link.writes or not link.writes_declared}
    unread = dict.fromkeys(past.event.text for past in trace.past_lab if past.event.link in writing)
    return f"writes may have gone unseen: {'; '.join(unread)}" if unread else ""


_Count = TypeVar("_Count", WriteCount, SentCount)


def _with_cause(count: _Count, repeats: Sequence[Finding]) -> _Count:
    return replace(count, caused=sum(not set(count.ids).isdisjoint(each.evidence) for each in repeats))


def _struck_by_budgets(records: Iterable[FaultRecord]) -> int:
    return sum(record.source == "budget" and record.delivered is True for record in records)


def _drawn(events: Iterable[Event]) -> Iterable[str]:
    for event in events:
        if isinstance(event, Exchange):
            yield from (_fault(entry.id, "ERROR_PROB") for entry in event.faults)
        elif isinstance(event, AttemptArmed):
            yield from (_toxic(toxic) for toxic in event.toxics)


def _shadows(events: Iterable[Event]) -> Iterable[tuple[str, str]]:
    for event in events:
        if isinstance(event, Exchange):
            yield from ((shadow.arm, _fault(shadow.id, "ERROR_PROB")) for shadow in event.shadows)
        elif isinstance(event, AttemptArmed):
            yield from ((shadow.arm, _toxic(shadow.toxic)) for shadow in event.shadows)


def _toxic(toxic: PlannedToxic) -> str:
    return _fault(toxic.entry, f"TOXIC_PROB: {toxic.kind}")


def _fault(entry: str, drawn_by: str) -> str:
    """The entry's id, or the setting that drew the fault."""
    return entry or drawn_by
