"""The summary of a run: counts, rates with their intervals, and what a reader must know beside them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from wirefault.history.events import (
    LAB_MODEL,
    AttemptArmed,
    BudgetUnknown,
    EpisodeStarted,
    Event,
    Exchange,
    ModelCall,
    RunFinished,
    ToolCallRefused,
    ToolTry,
    WentPastLab,
)
from wirefault.judging.account import FaultAccount
from wirefault.judging.findings.finding import Finding
from wirefault.judging.judge import EpisodeJudgement, RunJudgement, judge_run
from wirefault.judging.oracle.outcome import OUTCOMES, Outcome
from wirefault.judging.rates import Rate, Share, rate_of_first_attempts, rate_per_prompt, success_share
from wirefault.judging.reproducible import obstacles
from wirefault.judging.usage import ModelUsage
from wirefault.settings.budgets import Budgets, load_budgets
from wirefault.stats.rates import percentile
from wirefault.wiring.prompts import PromptsSource


def remarks(judgement: RunJudgement, torn: int, refused: Mapping[str, int]) -> Iterator[str]:
    """One sentence each; none for a run that is whole, judged and explained."""
    yield from _end(judgement.finished)
    started, episodes = judgement.started, judgement.episodes
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
        yield f"{calls} that the agent refused by itself: {reasons}"
    if judgement.stray:
        yield f"{counted(judgement.stray, 'request', 'requests')} at the gateway outside any episode"
    if torn:
        yield f"{counted(torn, 'cut-off last line', 'cut-off last lines')} of history files left out"
    yield from (f"scored differently: {text}" for text in judgement.differences)


def _end(finished: RunFinished | None) -> Iterator[str]:
    if finished is None:
        yield "the run has no end in its history: still going, or killed"
        return
    if not finished.completed:
        yield ended_early(finished.reason)
    if finished.toxics_left is None:
        yield "not known whether toxics were left behind"
    elif finished.toxics_left:
        yield f"{counted(finished.toxics_left, 'toxic', 'toxics')} left behind"


def ended_early(reason: str) -> str:
    """What is said of a run that did not come to its end."""
    return f"the run ended early: {reason}"


def counted(count: int, singular: str, plural: str) -> str:
    """``1 prompt``, ``2 prompts``."""
    return f"{count} {singular if count == 1 else plural}"


_WORDS: Mapping[str, str] = {
    "no_usage": "replies did not tell their tokens",
    "no_price": "a model has no price",
    "no_memory": "the subject's memory cannot be read here",
}


def budget_remarks(events: Iterable[Event], budgets: Budgets | None) -> Iterator[str]:
    """Which ``budgets`` of the run could not be counted in how many episodes, and why, a sentence each.

    Such as count at links of one kind alone are named too where no request went to one.
    """
    met = set()
    episodes: dict[tuple[str, str], set[str]] = {}
    for event in events:
        if isinstance(event, BudgetUnknown):
            model = f" ({event.model})" if event.why == "no_price" and event.model else ""
            episodes.setdefault((event.budget, _WORDS[event.why] + model), set()).add(event.episode)
        elif isinstance(event, Exchange):
            met.add(event.of_model)
    for (budget, why), unknown_in in sorted(episodes.items()):
        count = f"{len(unknown_in)} episode" + ("s" if len(unknown_in) > 1 else "")
        yield f"the budget {budget} could not be counted in {count}: {why}; it may have allowed too much"
    for of_model, kind in ((True, "model"), (False, "tool")):
        counted = _counted_there_alone(budgets, of_model=of_model) if budgets else []
        if counted and of_model not in met:
            yield f"no request went to a {kind}, so that nothing was counted for {', '.join(counted)}"


def _counted_there_alone(budgets: Budgets, *, of_model: bool) -> list[str]:
    """The budgets that links to models count, or links to tools, and the others do not."""
    there, elsewhere = (
        {
            f"{scope}.{name}"
            for scope, budget in budgets.at_gateway(of_model=place).items()
            for name in budget.model_dump(exclude_none=True)
        }
        for place in (of_model, not of_model)
    )
    return sorted(there - elsewhere)


@dataclass(frozen=True)
class LinkLatency:
    """Milliseconds, as the caller saw them, of the ``n`` proxied tries that got a valid reply.

    The ``failed`` ones (an error status too) are not in it: their time is the client's timeout or the
    fault's, not the network's.
    """

    p50: float | None
    p95: float | None
    p99: float | None
    n: int
    failed: int


@dataclass(frozen=True)
class Summary:
    """What a run has shown. ``remarks`` are for people: all that is not as it should be, in words.

    ``invalid_because``: where the lab did not inject what it had to; a run with any of it shows nothing.
    ``refused_calls``: how many tool calls the subject itself refused, by why; those that it does record.
    ``wiring_arguments``: the words of the command line that give the run's wiring, whose ``links`` are as
    ``Links.dump`` gives them.
    ``exposed`` are the episodes to which at least one fault was delivered, ``unexposed`` those to which none
    was; of others it is not known.
    ``oracles``: how many of the prompts that were sent have one; without any, nothing can be a success.
    ``differences``: where the verdicts are not those that were recorded.
    ``faults``: what became of each entry of the fault sets in force, and of what the settings drew besides.
    ``went_past``: the connections that were seen to go past the lab.
    ``findings``: what the rules of ``judging.findings`` see in it, also where there is no oracle.
    """

    run_id: str
    lab_id: str
    seed: int
    settings: Mapping[str, Any]
    subject: str
    prompts_source: PromptsSource
    wiring_arguments: list[str]
    links: list[dict[str, Any]]
    completed: bool
    episodes: list[EpisodeJudgement]
    oracles: int
    outcomes: dict[Outcome, int]
    success: Rate
    first_attempt: Rate
    exposed: Share
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

    @property
    def lab_failed_because(self) -> str:
        """Why a run that came to its end shows nothing; empty if it shows something."""
        if self.episodes and all(episode.outcome == "invalid" for episode in self.episodes):
            return f"the lab failed in every episode: {self.episodes[-1].why}"
        if self.invalid_because:
            return f"the run is invalid: {'; '.join(self.invalid_because)}"
        return ""

    @property
    def reproducible(self) -> bool:
        return not self.not_reproducible_because

    def as_json(self) -> dict[str, Any]:
        """One JSON object; no data is null."""
        whole = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return whole | {
            "settings": dict(self.settings),
            "episodes": [_episode(judgement) for judgement in self.episodes],
            "prompts_source": asdict(self.prompts_source),
            "success": asdict(self.success),
            "first_attempt": asdict(self.first_attempt),
            "exposed": asdict(self.exposed),
            "unexposed": asdict(self.unexposed),
            "faults": [asdict(row) for row in self.faults],
            "latency_ms": {link: asdict(latency) for link, latency in self.latency_ms.items()},
            "model_usage": asdict(self.model_usage),
            "went_past": [asdict(past) for past in self.went_past],
            "findings": [asdict(finding) for finding in self.findings],
            "reproducible": self.reproducible,
        }


def summarise(events: Iterable[Event], *, torn: int = 0) -> Summary:
    """Judges the run that the events tell of and sums it up; its episodes carry the verdicts.

    ``torn``: how many cut-off last lines the reader of the history met. Raises ``ValueError`` if the run's
    beginning is not among the events.
    """
    return summary_of(judge_run(events), torn=torn)


def summary_of(judgement: RunJudgement, *, torn: int = 0) -> Summary:
    """The same of a run that is judged already."""
    started, finished, events = judgement.started, judgement.finished, judgement.events
    counts = Counter(episode.outcome for episode in judgement.episodes)
    faults = judgement.account
    refused = dict(Counter[str](event.why for event in events if isinstance(event, ToolCallRefused)))
    return Summary(
        run_id=started.run_id,
        lab_id=started.lab_id,
        seed=started.seed,
        settings=started.settings,
        subject=started.subject_shown,
        prompts_source=started.prompts_source,
        wiring_arguments=started.wiring_arguments,
        links=started.links,
        completed=finished is not None and finished.completed,
        episodes=judgement.episodes,
        oracles=sum(isinstance(e, EpisodeStarted) and e.expect is not None for e in events),
        outcomes={name: counts[name] for name in OUTCOMES if counts[name]},
        success=rate_per_prompt(started, judgement.episodes),
        first_attempt=rate_of_first_attempts(started, judgement.episodes),
        exposed=success_share(episode.outcome for episode in judgement.episodes if _exposed(episode)),
        unexposed=success_share(episode.outcome for episode in judgement.episodes if _unexposed(episode)),
        faults=faults.rows,
        invalid_because=faults.invalid_because,
        unexplained=sum(len(episode.unexplained) for episode in judgement.episodes),
        refused_calls=refused,
        latency_ms=_latencies(events, started.wired.names),
        model_usage=judgement.model_usage,
        arming_ms=_arming([event.arming_ms for event in events if isinstance(event, AttemptArmed)]),
        duration_s=finished.t - started.t if finished else None,
        toxics_left=finished.toxics_left if finished else None,
        not_reproducible_because=obstacles(judgement),
        remarks=[
            *remarks(judgement, torn, refused),
            *faults.remarks(),
            *budget_remarks(events, load_budgets(str(started.settings.get("budgets", "")))),
        ],
        differences=judgement.differences,
        went_past=[event for event in events if isinstance(event, WentPastLab)],
        findings=judgement.findings,
    )


def _exposed(episode: EpisodeJudgement) -> bool:
    return any(fault.delivered for fault in episode.faults)


def _unexposed(episode: EpisodeJudgement) -> bool:
    """Whether none was delivered, for all that is known."""
    return all(fault.delivered is False for fault in episode.faults)


def _episode(judgement: EpisodeJudgement) -> dict[str, Any]:
    # a fault's own dict says of each stage whether it was reached, which asdict does not
    return asdict(judgement) | {"faults": [fault.as_dict() for fault in judgement.faults]}


def _latencies(events: Iterable[Event], links: Iterable[str]) -> dict[str, LinkLatency]:
    """By link, in the wiring's order; only links that were called."""
    tries: dict[str, list[ToolTry | ModelCall]] = {}
    for event in events:
        if isinstance(event, ModelCall):
            tries.setdefault(LAB_MODEL, []).append(event)
        elif isinstance(event, ToolTry) and event.route == "proxy":
            tries.setdefault(event.link, []).append(event)
    return {link: _latency(tries[link]) for link in links if link in tries}


def _latency(tries: Sequence[ToolTry | ModelCall]) -> LinkLatency:
    times = [tried.ms for tried in tries if tried.error is None]
    return LinkLatency(
        p50=percentile(times, 50),
        p95=percentile(times, 95),
        p99=percentile(times, 99),
        n=len(times),
        failed=len(tries) - len(times),
    )


def _arming(times: Sequence[float]) -> dict[str, float | int | None]:
    return {"p50": percentile(times, 50), "p99": percentile(times, 99), "n": len(times)}
