"""The summary of a run: counts, rates with their intervals, and remarks in words. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wirefault.core.interrupts import is_interruption
from wirefault.history.events import (
    AttemptArmed,
    BudgetUnknown,
    EpisodeJudged,
    Event,
    Exchange,
    NeverCalled,
    RecoveryTried,
    RunFinished,
    ToolCallRefused,
    WentPastLab,
)
from wirefault.history.judged_events import Finding, Outcome
from wirefault.history.lines import as_json
from wirefault.judging.account import FaultAccount, nothing_known
from wirefault.judging.findings.finding import worst_finding
from wirefault.judging.judge import ByControl, RunJudgement, judge_run
from wirefault.judging.kills import KillPoint, kill_points
from wirefault.judging.oracle.outcome import OUTCOMES
from wirefault.judging.oracle.validity import who_failed
from wirefault.judging.rates import (
    Rate,
    UncheckedClaims,
    first_attempt_rate,
    is_unchecked_claim,
    rate_per_prompt,
    success_share,
    unchecked_claims,
)
from wirefault.judging.reproducible import obstacles
from wirefault.judging.requests import Request
from wirefault.judging.subject_name import subject_name
from wirefault.judging.trace import EpisodeTrace
from wirefault.judging.usage import ModelUsage
from wirefault.settings.budgets import Budgets, load_budgets
from wirefault.stats.rates import Share, percentile
from wirefault.wiring.links import Link
from wirefault.wiring.prompts import PromptsSource

_WHY_UNCOUNTED: Mapping[str, str] = {
    "no_usage": "replies had no token counts",
    "no_price": "a model has no price",
    "no_memory": "the subject's memory cannot be read here",
}


@dataclass(frozen=True)
class LinkLatency:
    """Milliseconds, as the caller saw them, of the proxied tries with a valid reply."""

    p50: float | None
    p95: float | None
    p99: float | None
    n: int
    failed: int  # error statuses included: their time is the client's timeout or the fault's


@dataclass(frozen=True)
class RecoveryCount:
    """How often a strategy of ``RECOVERY`` was tried in a run, and with success; ``seconds`` in all."""

    tried: int
    succeeded: int
    seconds: float


@dataclass(frozen=True)
class Summary:
    """The results of a run.

    ``invalid_because``: where the lab did not inject a fault that it had to; such a run shows nothing.
    ``refused_calls``: how many tool calls the subject itself refused, by reason, as far as it records them.
    ``wiring_arguments``: the words of the command line that give the run's wiring, whose ``links`` are as
    ``Links.dump`` gives them.
    ``exposed`` are the episodes to which at least one fault was delivered, ``unexposed`` those to which none
    was; for the others it is unknown. ``touched``: those of ``exposed`` in which a fault touched a value or a
    call that the oracle asks about.
    ``oracles``: how many of the prompts that were sent have one; without any, nothing can be a success.
    ``claims``: what the agent said in the episodes without an oracle, which nothing checks.
    ``differences``: verdicts that differ from the recorded ones.
    ``faults``: a row for each entry of the fault sets in force, and for faults that the settings drew.
    ``faults_name``: the fault set as the user named it; empty for a text.
    ``lab_files``: the lab's data files other than the shipped ones, by their variable.
    ``never_called``: links and hosts that the run's files name and that the agent never called.
    ``went_past``: the connections that bypassed the lab.
    ``recoveries``: what the agent tried to recover from failures, by strategy.
    ``kills``: the kills of the subject and the work after them, by link and point.
    ``interrupted``: a person stopped or killed it before its end, or it is still running.
    ``remarks`` are for people: all that is not as it should be, in words.
    """

    run_id: str
    lab_id: str
    seed: int
    settings: Mapping[str, Any]
    subject: str
    prompts_source: PromptsSource
    wiring_arguments: list[str]
    links: list[Link]
    completed: bool
    episodes: list[EpisodeJudged]
    oracles: int
    outcomes: dict[Outcome, int]
    claims: UncheckedClaims
    success: Rate
    first_attempt: Rate
    exposed: Share
    touched: Share
    unexposed: Share
    faults: list[FaultAccount]
    invalid_because: list[str]
    unexplained: int
    refused_calls: dict[str, int]
    latency_ms: dict[str, LinkLatency]
    model_usage: ModelUsage
    arming_ms: dict[str, float | int | None]
    duration_s: float | None
    toxics_left: int | None
    not_reproducible_because: list[str]
    remarks: list[str]
    differences: list[str]
    went_past: list[WentPastLab]
    findings: list[Finding]
    faults_name: str = ""
    lab_files: Mapping[str, str] = field(default_factory=dict)
    never_called: list[NeverCalled] = field(default_factory=list)
    recoveries: dict[str, RecoveryCount] = field(default_factory=dict)
    kills: list[KillPoint] = field(default_factory=list)
    interrupted: bool = False

    @property
    def lab_failed_because(self) -> str:
        """Why a completed run shows nothing although no server failed; empty if it shows something."""
        if failure := self._failure_of_all:
            return failure if failure.startswith("the lab") else ""
        if self.invalid_because:
            return f"the run is invalid: {'; '.join(self.invalid_because)}"
        return ""

    @property
    def servers_failed_because(self) -> str:
        """Why a completed run shows nothing: the model or another server failed in every episode."""
        failure = self._failure_of_all
        return "" if failure.startswith("the lab") else failure

    @property
    def _failure_of_all(self) -> str:
        return failure_of_all((episode.outcome, episode.why) for episode in self.episodes)

    @property
    def worst(self) -> str:
        """Severity and rule of the worst finding; empty if all are notes."""
        return worst_finding(self.findings)

    @property
    def reproducible(self) -> bool:
        return not self.not_reproducible_because

    def as_json(self) -> dict[str, Any]:
        """One JSON object; unknown values are null."""
        episodes = [_episode(judgement) for judgement in self.episodes]
        whole: dict[str, Any] = as_json(replace(self, episodes=[]))
        for name in ("exposed", "touched", "unexposed"):
            whole[name]["rate"] = getattr(self, name).rate
        return whole | {"episodes": episodes, "reproducible": self.reproducible}


def summarise(
    events: Iterable[Event], *, torn: int = 0, control: Mapping[str, ByControl] | None = None
) -> Summary:
    """Judge a run and sum it up.

    ``torn``: how many cut-off last lines the reader of the history met. ``control``: what an experiment's
    control shows about the episodes. Raises ``ValueError`` if the run's beginning is not among the events.
    """
    return summary_of(judge_run(events).by_control(control or {}), torn=torn)


def summary_of(judgement: RunJudgement, *, torn: int = 0) -> Summary:
    """The summary of a judged run."""
    started, finished, events = judgement.started, judgement.finished, judgement.events
    counts = Counter(episode.outcome for episode in judgement.episodes)
    faults = judgement.account
    with_oracle = {name for name, trace in judgement.traces.items() if trace.has_oracle}
    refused = dict(Counter[str](event.why for event in events if isinstance(event, ToolCallRefused)))
    return Summary(
        run_id=started.run_id,
        lab_id=started.lab_id,
        seed=started.seed,
        settings=started.settings,
        subject=subject_name(started, events),
        prompts_source=started.prompts_source,
        wiring_arguments=started.wiring_arguments,
        links=started.links,
        completed=finished is not None and finished.completed,
        episodes=judgement.episodes,
        oracles=len(with_oracle),
        outcomes={name: counts[name] for name in OUTCOMES if counts[name]},
        claims=unchecked_claims(
            episode.claim
            for episode in judgement.episodes
            if is_unchecked_claim(episode.outcome, episode.claim, episode.episode in with_oracle)
        ),
        success=rate_per_prompt(started, judgement.episodes),
        first_attempt=first_attempt_rate(started, judgement.episodes),
        exposed=success_share(episode.outcome for episode in judgement.episodes if episode.delivered()),
        touched=success_share(episode.outcome for episode in judgement.episodes if episode.touched),
        unexposed=success_share(
            episode.outcome
            for episode in judgement.episodes
            if not episode.delivered() and not episode.delivered(None)
        ),
        faults=faults.rows,
        invalid_because=faults.invalid_because,
        unexplained=sum(len(episode.unexplained) for episode in judgement.episodes),
        refused_calls=refused,
        latency_ms=_latencies(judgement.traces.values(), started.wired.names),
        model_usage=judgement.model_usage,
        arming_ms=_arming([event.arming_ms for event in events if isinstance(event, AttemptArmed)]),
        duration_s=judgement.seconds,
        toxics_left=finished.toxics_left if finished else None,
        not_reproducible_because=obstacles(judgement),
        remarks=[
            *remarks(judgement, torn, refused),
            *faults.remarks(),
            *filter(None, [nothing_known(faults.rows, started.settings) if finished else ""]),
            *budget_remarks(events, load_budgets(str(started.settings.get("budgets", "")))),
        ],
        differences=judgement.differences,
        went_past=[event for event in events if isinstance(event, WentPastLab)],
        findings=judgement.findings,
        faults_name=started.faults_name,
        lab_files=started.lab_files,
        never_called=finished.never_called if finished else [],
        recoveries=recovery_counts(events),
        kills=kill_points(judgement.traces.values()),
        interrupted=finished is None or is_interruption(finished.reason),
    )


def recovery_counts(events: Iterable[Event]) -> dict[str, RecoveryCount]:
    """Return how often each strategy was tried, by its name."""
    tried: dict[str, list[RecoveryTried]] = {}
    for event in events:
        if isinstance(event, RecoveryTried):
            tried.setdefault(event.strategy, []).append(event)
    return {
        strategy: RecoveryCount(
            len(tries), sum(each.success for each in tries), round(sum(each.seconds for each in tries), 3)
        )
        for strategy, tries in sorted(tried.items())
    }


def recoveries_text(recoveries: Mapping[str, RecoveryCount]) -> str:
    """Return for example ``retry 3 of 5 (1.2 s), breaker 1 of 1 (0.0 s)``; empty if nothing was tried."""
    return ", ".join(
        f"{strategy} {count.succeeded} of {count.tried} ({count.seconds:.1f} s)"
        for strategy, count in recoveries.items()
    )


_ELSEWHERE = frozenset({"t", "findings", "by_outcome", "costs"})


def _episode(judgement: EpisodeJudged) -> dict[str, Any]:
    # a fault's own dict has each stage as a flag, which asdict has not
    whole = judgement.as_json() | {"faults": [fault.as_dict() for fault in judgement.faults]}
    # without the clock two runs of a seed are equal; the summary has the findings and the costs
    return {name: value for name, value in whole.items() if name not in _ELSEWHERE}


def _latencies(traces: Iterable[EpisodeTrace], links: Iterable[str]) -> dict[str, LinkLatency]:
    """The links that were called, in the wiring's order."""
    tries: dict[str, list[Request]] = {}
    for request in (each for trace in traces for each in trace.tries if not each.direct):
        tries.setdefault(request.link_name, []).append(request)
    return {link: _latency(tries[link]) for link in links if link in tries}


def _latency(tries: Sequence[Request]) -> LinkLatency:
    times = [request.ms for request in tries if request.failed is False]
    return LinkLatency(
        p50=percentile(times, 50),
        p95=percentile(times, 95),
        p99=percentile(times, 99),
        n=len(times),
        failed=sum(bool(request.failed) for request in tries),
    )


def _arming(times: Sequence[float]) -> dict[str, float | int | None]:
    return {"p50": percentile(times, 50), "p99": percentile(times, 99), "n": len(times)}


def remarks(judgement: RunJudgement, torn: int, refused: Mapping[str, int]) -> Iterator[str]:
    """All that is not as it should be, a sentence each; none for a whole, judged and explained run."""
    yield from _end(judgement.finished)
    started, episodes = judgement.started, judgement.episodes
    if judgement.finished is not None:
        yield from (named.sentence for named in judgement.finished.never_called)
    planned, skipped = started.prompts, started.skipped_prompts
    if len(episodes) < planned:
        yield f"{planned - len(episodes)} of {planned} prompts not run"
    if skipped:
        yield f"{counted(skipped, 'bad entry', 'bad entries')} of the prompts file left out"
    whys = Counter((e.outcome, e.why) for e in episodes if not OUTCOMES[e.outcome].in_rate)
    for (outcome, why), count in sorted(whys.items()):
        yield f"{counted(count, 'prompt', 'prompts')} {outcome}: {why}"
    unexplained = sum(len(episode.unexplained) for episode in episodes)
    if unexplained:
        yield f"{counted(unexplained, 'failed try', 'failed tries')} that no fault explains"
    if refused:
        reasons = ", ".join(f"{why} {count}" for why, count in sorted(refused.items()))
        calls = counted(sum(refused.values()), "tool call", "tool calls")
        yield f"{calls} that the agent itself refused: {reasons}"
    if judgement.stray:
        yield f"{counted(judgement.stray, 'request', 'requests')} at the gateway outside any episode"
    if torn:
        yield f"{counted(torn, 'cut-off last line', 'cut-off last lines')} of history files left out"
    yield from (f"scored differently: {text}" for text in judgement.differences)


def _end(finished: RunFinished | None) -> Iterator[str]:
    if finished is None:
        yield "the run has no end in its history: still running, or interrupted"
        return
    if not finished.completed:
        yield ended_early(finished.reason)
    if finished.toxics_left is None:
        yield "unknown whether toxics were left behind"
    elif finished.toxics_left:
        yield f"{counted(finished.toxics_left, 'toxic', 'toxics')} left behind"


def failure_of_all(episodes: Iterable[tuple[str, str]]) -> str:
    """Who failed in all these episodes, by their outcomes and reasons; empty if one of them is valid."""
    episodes = list(episodes)
    if not episodes or any(outcome != "invalid" for outcome, _ in episodes):
        return ""
    return f"{who_failed(why for _, why in episodes)} failed in every episode: {episodes[-1][1]}"


def ended_early(reason: str) -> str:
    """The sentence for a run that did not come to its end."""
    return f"the run ended early: {reason}"


def counted(count: int, singular: str, plural: str = "") -> str:
    """``1 prompt``, ``2 prompts``; the plural has an s by default."""
    return f"{count} {singular if count == 1 else plural or f'{singular}s'}"


def budget_remarks(events: Iterable[Event], budgets: Budgets | None) -> Iterator[str]:
    """Which budgets could not be counted, in how many episodes, and why: one sentence each.

    Budgets that count at links of one kind are named, too, if no request went to such a link.
    """
    called = set()  # models, tools
    episodes: dict[tuple[str, str], set[str]] = {}
    for event in events:
        if isinstance(event, BudgetUnknown):
            model = f" ({event.model})" if event.why == "no_price" and event.model else ""
            episodes.setdefault((event.budget, _WHY_UNCOUNTED[event.why] + model), set()).add(event.episode)
        elif isinstance(event, Exchange):
            called.add(event.of_model)
    for (budget, why), unknown_in in sorted(episodes.items()):
        count = f"{len(unknown_in)} episode" + ("s" if len(unknown_in) > 1 else "")
        yield f"the budget {budget} could not be counted in {count}: {why}; it may have allowed too much"
    for of_model, kind in ((True, "model"), (False, "tool")):
        names = _budgets_of_one_kind(budgets, of_model=of_model) if budgets else []
        if names and of_model not in called:
            yield f"no request went to a {kind}, so nothing was counted for {', '.join(names)}"


def _budgets_of_one_kind(budgets: Budgets, *, of_model: bool) -> list[str]:
    """The budgets that count at links to models only, or at links to tools only."""
    here, elsewhere = (
        {
            f"{scope}.{name}"
            for scope, budget in budgets.at_gateway(of_model=place).items()
            for name in budget.model_dump(exclude_none=True)
        }
        for place in (of_model, not of_model)
    )
    return sorted(here - elsewhere)
