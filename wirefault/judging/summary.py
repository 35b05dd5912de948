"""The summary of a run: counts, rates with their intervals, and what a reader must know beside them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from wirefault.history.events import (
    LAB_MODEL,
    AttemptArmed,
    EpisodeStarted,
    Event,
    ModelCall,
    PromptsSource,
    ToolCallRefused,
    ToolTry,
    WentPastLab,
)
from wirefault.judging.account import FaultAccount, account
from wirefault.judging.budget_remarks import budget_remarks
from wirefault.judging.findings.finding import Finding
from wirefault.judging.findings.rules import findings_in
from wirefault.judging.judge import EpisodeJudgement, judge_run
from wirefault.judging.oracle.outcome import OUTCOMES, Outcome
from wirefault.judging.rates import Rate, Share, rate_of_first_attempts, rate_per_prompt, success_share
from wirefault.judging.remarks import remarks
from wirefault.judging.reproducible import obstacles
from wirefault.judging.usage import ModelUsage, model_usage
from wirefault.settings.budgets import load_budgets
from wirefault.stats.intervals import percentile


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
    ``flown_by``: the words of the command line that give the run's wiring, whose ``links`` are as
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
    flown_by: list[str]
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
    events = list(events)
    judgement = judge_run(events)
    started, finished = judgement.started, judgement.finished
    counts = Counter(episode.outcome for episode in judgement.episodes)
    records = [fault for episode in judgement.episodes for fault in episode.faults]
    faults = account(started, events, records)
    refused = dict(Counter[str](event.why for event in events if isinstance(event, ToolCallRefused)))
    return Summary(
        run_id=started.run_id,
        lab_id=started.lab_id,
        seed=started.seed,
        settings=started.settings,
        subject=started.subject_shown,
        prompts_source=started.prompts_source,
        flown_by=started.flown_by,
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
        model_usage=model_usage(events, str(started.settings.get("prices", ""))),
        arming_ms=_arming([event.arming_ms for event in events if isinstance(event, AttemptArmed)]),
        duration_s=finished.t - started.t if finished else None,
        toxics_left=finished.toxics_left if finished else None,
        not_reproducible_because=obstacles(judgement, events),
        remarks=[
            *remarks(judgement, torn, refused),
            *faults.remarks(),
            *budget_remarks(events, load_budgets(str(started.settings.get("budgets", "")))),
        ],
        differences=judgement.differences,
        went_past=[event for event in events if isinstance(event, WentPastLab)],
        findings=findings_in(events),
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
