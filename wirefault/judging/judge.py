"""Judge episodes and runs by their history. Pure: the same events always give the same outcomes.

The runner calls ``judge_trace`` when an episode ends. Code that reads a recorded run calls ``judge_run``
once and reads all facts from the judgement. Events of different files may be in any order; events of one file
must be in the order in which they were written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from msgspec import structs

from wirefault.core.interrupts import is_interruption
from wirefault.history.events import EpisodeJudged, EpisodeStarted, Event, Exchange, RunFinished, RunStarted
from wirefault.history.judged_events import SEVERITIES, FaultRecord, Finding
from wirefault.history.reader import with_run_ids
from wirefault.judging.account import RunAccount, account
from wirefault.judging.evidence.gather import faulted_exchanges, gather
from wirefault.judging.findings.outcomes import outcome_finding, with_outcome
from wirefault.judging.findings.retries import SENT_AGAIN
from wirefault.judging.findings.rules import in_order, trace_findings
from wirefault.judging.findings.writes import WRITE_REPEATED
from wirefault.judging.oracle.episode import attempt_alone, judge_by_oracle, oracle_of, pending_because
from wirefault.judging.oracle.expect import Oracle
from wirefault.judging.oracle.exposure import AskedAbout
from wirefault.judging.trace import EpisodeTrace, traces_of
from wirefault.judging.usage import ModelUsage, episode_costs, model_usage
from wirefault.judging.writes import SentCount, WriteCount, sent_counts, write_counts

# characters of a differing value, and of those before the place where it differs
_MAX_SHOWN, _SHOWN_BEFORE = 80, 20


@dataclass(frozen=True)
class ByControl:
    """What the control of an experiment shows about an episode."""

    repeated: str = ""
    """The writes that were repeated, which makes the episode a ``duplicate``."""
    by_network: bool = False
    """Whether the network alone repeated them: it delivered one request several times."""
    perhaps_repeated: str = ""
    usual: frozenset[str] = frozenset()
    """Writes (``WriteCount.same``) that the control executes as often; their findings do not count."""
    usual_sent: frozenset[str] = frozenset()
    """Requests (``SentCount.same``) that it sends as often: findings that one was sent again do not count."""
    differences: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class JudgedEpisode:
    """An episode of a judged run: its joined requests, its judgement, and the findings that count."""

    trace: EpisodeTrace
    judged: EpisodeJudged
    findings: Sequence[Finding]  # of the judgement, but for the control's; in an audit, of its answer

    @property
    def run_id(self) -> str:
        return self.trace.run.run_id if self.trace.run else ""


@dataclass(frozen=True)
class RunJudgement:
    """A judged run: its verdicts, in the order in which the episodes started, and facts of its history."""

    started: RunStarted
    finished: RunFinished | None  # None for a run that is still running or was killed
    episodes: list[EpisodeJudged]
    events: Sequence[Event] = ()
    traces: Mapping[str, EpisodeTrace] = field(default_factory=dict)  # by episode
    stray: int = 0  # requests that belong to no episode of the run
    differences: list[str] = field(default_factory=list)  # of episodes judged again, to the recorded verdicts
    control: Mapping[str, ByControl] = field(default_factory=dict)  # by episode; empty without a control
    seconds: float | None = None  # that it ran, without the pauses before it was resumed; None without an end

    @cached_property
    def findings(self) -> list[Finding]:
        """The findings, the most severe first."""
        judged = {episode.episode: episode for episode in self.episodes}
        return run_findings(self.traces.values(), judged, self.control)

    @cached_property
    def by_episode(self) -> Mapping[str, JudgedEpisode]:
        findings: defaultdict[str, list[Finding]] = defaultdict(list)
        for finding in self.findings:
            findings[finding.episode].append(finding)
        return {
            key: JudgedEpisode(self.traces[key], judged, findings[key])
            for judged in self.episodes
            for key in [judged.episode]
        }

    def by_control(self, control: Mapping[str, ByControl]) -> RunJudgement:
        """The same run, judged with its control."""
        judged = [
            _by_control(each, control[each.episode], self.traces[each.episode])
            if each.episode in control
            else each
            for each in self.episodes
        ]
        return replace(self, episodes=judged, control=control)

    @cached_property
    def account(self) -> RunAccount:
        """The number of faults of each kind that reached each stage."""
        return account(self.started, self.events, [f for judged in self.episodes for f in judged.faults])

    @cached_property
    def valid_account(self) -> RunAccount:
        """The account without invalid episodes."""
        valid = [judged for judged in self.episodes if judged.outcome != "invalid"]
        names = {None, *(judged.episode for judged in valid)}
        events = [event for event in self.events if getattr(event, "episode", None) in names]
        return account(self.started, events, [fault for judged in valid for fault in judged.faults])

    @cached_property
    def model_usage(self) -> ModelUsage:
        return model_usage(self.events, str(self.started.settings.get("prices", "")))


def judge_run(events: Iterable[Event], judged: Mapping[str, EpisodeJudged] | None = None) -> RunJudgement:
    """Judge a whole run. Raises ``ValueError`` if its beginning is not among the events.

    ``judged``: the judgements to take, all others are made again; by default those that a completed run
    recorded.
    """
    return judge_identified(with_run_ids(events), judged)


def judge_identified(
    identified: Sequence[tuple[str, Event]], judged: Mapping[str, EpisodeJudged] | None = None
) -> RunJudgement:
    """Judge a whole run whose events already have ids."""
    events = [event for _, event in identified]
    started = next((event for event in reversed(events) if isinstance(event, RunStarted)), None)
    if started is None:
        raise ValueError("no run_started in this history: is the agent's file missing?")
    finished = next((event for event in reversed(events) if isinstance(event, RunFinished)), None)
    interrupted = finished is not None and is_interruption(finished.reason)
    traces = {trace.episode: trace for trace in traces_of(identified)}
    recorded = recorded_judgements(identified)
    if judged is None:
        judged = recorded if finished is not None and finished.completed else {}
    names = dict.fromkeys(event.episode for event in events if isinstance(event, EpisodeStarted))
    episodes = [
        judged.get(name) or judge_trace(traces[name], finished is not None, interrupted) for name in names
    ]
    return RunJudgement(
        started,
        finished,
        episodes,
        events,
        traces,
        stray=sum(isinstance(event, Exchange) and event.episode not in names for event in events),
        differences=[
            difference
            for each in episodes
            if (before := recorded.get(each.episode, each)) is not each
            for difference in _differences(each, before)
        ],
        seconds=finished.t - started.t if finished else None,
    )


def recorded_judgements(identified: Sequence[tuple[str, Event]]) -> dict[str, EpisodeJudged]:
    """The last recorded judgement of each episode."""
    prompts = {event.episode: event.prompt for _, event in identified if isinstance(event, EpisodeStarted)}
    return {
        event.episode: event.from_history(prompts[event.episode], id.rpartition("/")[0])
        for id, event in identified
        if isinstance(event, EpisodeJudged) and event.episode in prompts
    }


def judge_episode(events: Iterable[Event], episode: str, control: ByControl | None = None) -> JudgedEpisode:
    """Judge one episode among all events of its run. Raises ``ValueError`` if it is missing."""
    alone = [
        (id, event) for id, event in with_run_ids(events) if getattr(event, "episode", episode) == episode
    ]
    run = judge_identified(alone).by_control({episode: control} if control else {})
    if not run.episodes:
        raise ValueError(f"episode {episode} is not in this history")
    return run.by_episode[episode]


def _differences(judged: EpisodeJudged, recorded: EpisodeJudged) -> Iterator[str]:
    """A sentence for each field that differs; for the outcome alone if it does."""
    if judged.outcome != recorded.outcome:
        yield f"episode {judged.episode}: {judged.outcome}, recorded as {recorded.outcome}"
        return
    now, then = (
        each.as_json() | {f"costs.{name}": value for name, value in each.costs.as_json().items()}
        for each in (judged, recorded)
    )
    for name in now.keys() - {"t", "costs"}:
        if now[name] != then[name]:
            yield f"episode {judged.episode}: {_first_difference(name, now[name], then[name])}"


def _first_difference(path: str, now: object, then: object) -> str:
    """Name the first field or entry that differs, with both values from where they differ."""
    if isinstance(now, dict) and isinstance(then, dict) and now.keys() == then.keys():
        key = next(key for key in now if now[key] != then[key])
        return _first_difference(f"{path}.{key}", now[key], then[key])
    if isinstance(now, list | tuple) and isinstance(then, list | tuple) and len(now) == len(then):
        place = next(place for place, pair in enumerate(zip(now, then, strict=True)) if pair[0] != pair[1])
        return _first_difference(f"{path}[{place}]", now[place], then[place])
    texts = repr(now), repr(then)
    places = (place for place, pair in enumerate(zip(*texts, strict=False)) if len(set(pair)) > 1)
    start = max(next(places, 0) - _SHOWN_BEFORE, 0)
    first, second = ("..." * bool(start) + text[start : start + _MAX_SHOWN] for text in texts)
    return f"{path} {first}, recorded as {second}"


def _by_control(judged: EpisodeJudged, control: ByControl, trace: EpisodeTrace) -> EpisodeJudged:
    """Replace the outcome of the judgement by the control's."""
    if not control.repeated or judged.outcome in ("duplicate", "invalid"):
        return judged
    judged = structs.replace(judged, outcome="duplicate", why=control.repeated)
    finding = outcome_finding(trace, judged)
    if finding is not None and control.by_network:
        finding = structs.replace(finding, severity="note")
    return structs.replace(judged, by_outcome=finding)


def run_findings(
    traces: Iterable[EpisodeTrace],
    judged: Mapping[str, EpisodeJudged],
    control: Mapping[str, ByControl] = MappingProxyType({}),
) -> list[Finding]:
    """The findings in these episodes, their differences to the control, and by their outcomes.

    The most severe are first. Findings about writes that the control executes as often, and about requests
    that it sends as often, are omitted. In an invalid episode all are notes: it shows nothing about the
    subject.
    """
    traces = list(traces)
    findings = in_order(
        finding
        for trace in traces
        for finding in _rule_findings(trace, judged.get(trace.episode), control.get(trace.episode))
    )
    differences = [
        finding
        for trace in traces
        if trace.episode in control
        for finding in control[trace.episode].differences
    ]
    by_episode: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in [*findings, *differences]:
        by_episode[finding.episode].append(finding)
    for trace in traces:
        if (verdict := judged.get(trace.episode)) is not None:
            by_episode[trace.episode] = list(with_outcome(by_episode[trace.episode], verdict.by_outcome))
    findings = [each for of_episode in by_episode.values() for each in of_episode]
    invalid = {episode for episode, verdict in judged.items() if verdict.outcome == "invalid"}
    findings = [structs.replace(f, severity="note") if f.episode in invalid else f for f in findings]
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def _rule_findings(
    trace: EpisodeTrace, judged: EpisodeJudged | None, control: ByControl | None
) -> Iterable[Finding]:
    findings = judged.findings if judged is not None else trace_findings([trace])
    if control is None or not (control.usual or control.usual_sent):
        return findings
    usual = usual_by_rule(write_counts(trace), control.usual, sent_counts(trace), control.usual_sent)
    return not_usual(findings, usual)


def not_usual(findings: Iterable[Finding], usual: Mapping[str, frozenset[str]]) -> Iterator[Finding]:
    """The findings without those about what the control does as often. ``usual``: see ``usual_by_rule``."""
    return (each for each in findings if usual.get(each.rule, frozenset()).isdisjoint(each.evidence))


def usual_by_rule(
    writes: Iterable[WriteCount],
    usual: Container[str],
    sends: Iterable[SentCount],
    usual_sent: Container[str],
) -> Mapping[str, frozenset[str]]:
    """By rule: the ids of the events that show what the control does as often. An observation with one of
    these in its evidence does not count.
    """
    sent_ids = frozenset(id for count in sends if count.same in usual_sent for id in count.ids)
    write_ids = frozenset(id for count in writes if count.same in usual for id in count.ids)
    return {WRITE_REPEATED.name: write_ids, **dict.fromkeys(SENT_AGAIN, sent_ids)}


def judge_trace(trace: EpisodeTrace, finished: bool = True, interrupted: bool = False) -> EpisodeJudged:
    """Judge one episode by its trace.

    ``finished`` is False while the run continues. An episode without an end is ``unjudged`` in such a run,
    and in a run that a person ``interrupted``. In any other run the lab failed, and it is ``invalid``.
    Raises ``ValueError`` without its beginning.
    """
    started, attempts, oracle = trace.last(EpisodeStarted), trace.attempts, oracle_of(trace)
    if started is None:
        raise ValueError("no episode_started among the episode's events")
    verdict = first = judge_by_oracle(trace, oracle, pending_because(trace, finished, interrupted))
    if len(attempts) > 1:
        alone = attempt_alone(trace, attempts[0])
        first = judge_by_oracle(alone, oracle, pending_because(alone, finished, interrupted))
    evidence = gather(trace)
    judged = EpisodeJudged(
        t=0.0,  # the runner's clock, when it records this
        episode=started.episode,
        prompt=started.prompt,
        outcome=verdict.outcome,
        world=verdict.axes.world,
        claim=verdict.axes.claim,
        value=verdict.axes.value,
        flags=verdict.flags,
        attempts=len(attempts),
        first_attempt_outcome=first.outcome,
        faults=evidence.faults,
        unexplained=evidence.unexplained,
        why=verdict.why,
        touched=_is_touched(trace, oracle, evidence.faults),
        findings=tuple(trace_findings([trace])),
        costs=episode_costs(trace),
    )
    return structs.replace(judged, by_outcome=outcome_finding(trace, judged))


def _is_touched(trace: EpisodeTrace, oracle: Oracle | None, faults: Sequence[FaultRecord]) -> bool:
    """Whether a delivered fault touched what the oracle asks about."""
    if oracle is None or not any(fault.delivered for fault in faults):
        return False
    faulted = faulted_exchanges(trace)
    toxics: list[tuple[None, None]] = [(None, None)] * (len(faults) - len(faulted))
    about = AskedAbout(oracle, trace)
    return any(
        fault.delivered is True and about.is_touched(fault, exchange, fault_met)
        for fault, (exchange, fault_met) in zip(faults, [*toxics, *faulted], strict=True)
    )
