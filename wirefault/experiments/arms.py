"""Facts and history of an arm, merged from its runs; each episode counts from one run."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from msgspec import structs

from wirefault.core.interrupts import INTERRUPTED_LINE, is_interruption
from wirefault.experiments.facts import (
    EpisodeFacts,
    RunFacts,
    why_cut_short,
)
from wirefault.experiments.outages import EpisodeOutages
from wirefault.history.events import (
    EpisodeJudged,
    EpisodeStarted,
    Event,
    NeverCalled,
    Note,
    RunFinished,
    RunSealed,
    RunStarted,
)
from wirefault.history.reader import HistoryError, moment_of, read_history, with_ids
from wirefault.judging.judge import RunJudgement, judge_identified
from wirefault.judging.rates import UncheckedClaims, unchecked_claims
from wirefault.judging.summary import counted, failure_of_all


@dataclass(frozen=True)
class ArmFacts:
    """The completed episodes of an arm, out of ``planned``.

    ``problems`` says why others did not complete. ``invalid_because`` lists what the lab failed to inject.
    ``invalid`` counts the runs in which an episode was invalid; ``superseded`` has invalid episodes that were
    run again. ``source`` is the run that each episode counts from.
    """

    planned: int
    episodes: Sequence[EpisodeFacts]
    problems: tuple[str, ...] = ()
    invalid_because: tuple[str, ...] = ()
    invalid: Mapping[str, int] = field(default_factory=dict)
    superseded: tuple[str, ...] = ()
    source: Mapping[str, str] = field(default_factory=dict)

    @property
    def missing(self) -> int:
        """The number of episodes that did not complete."""
        return self.planned - len(self.episodes)

    @cached_property
    def valid(self) -> ArmFacts:
        """The facts of the valid episodes only; the others count as missing."""
        return replace(self, episodes=[e for e in self.episodes if e.judged.outcome != "invalid"])

    def only(self, keys: Collection[str]) -> ArmFacts:
        """The facts of the episodes with these keys."""
        return replace(self, planned=len(keys), episodes=[e for e in self.episodes if e.episode in keys])

    @property
    def failure(self) -> str:
        """Why the arm shows nothing; empty if it shows something."""
        if self.missing:
            return f"{counted(self.missing, 'episode')} did not complete: {'; '.join(self.problems)}"
        if failure := failure_of_all(
            (episode.judged.outcome, episode.judged.why) for episode in self.episodes
        ):
            return failure
        return f"the run is invalid: {'; '.join(self.invalid_because)}" if self.invalid_because else ""

    @cached_property
    def claims(self) -> UncheckedClaims:
        """What the agent said in the episodes without an oracle."""
        return unchecked_claims(each.judged.claim for each in self.episodes if each.is_unchecked)

    @cached_property
    def outages(self) -> Mapping[str, EpisodeOutages]:
        """The outages of each valid episode."""
        return {episode.episode: episode.outages for episode in self.valid.episodes}

    @property
    def shows_all_outages(self) -> bool:
        """Whether each planned episode ran and shows all failures in it."""
        known = sum(of_episode.whole for of_episode in self.outages.values())
        return known >= max(self.planned, len(self.episodes))

    def keys(self, *outcomes: str) -> tuple[str, ...]:
        """The keys of the episodes with one of these outcomes."""
        return tuple(e.episode for e in self.episodes if e.judged.outcome in outcomes)


def put_together(runs: Sequence[RunFacts], planned: int) -> ArmFacts:
    """Merge the facts of an arm's runs, which are in their order.

    An episode counts from the first run in which it is valid, else from the last. Invalid episodes of a run
    that ended early did not complete: the same cause broke both.
    """
    source: dict[str, str] = {}
    invalid: dict[str, int] = {}
    left: dict[str, str] = {}
    superseded: list[str] = []
    ended = {run.run_id: {e.episode: e for e in run.episodes if e.ended} for run in runs if run.is_readable}
    for run_id, whole in [(run.run_id, not run.problem) for run in runs if run.is_readable]:
        for key, episode in ended[run_id].items():
            if key in source and key not in invalid:
                continue  # already judged
            earlier = left.pop(key, source.get(key))
            if earlier is not None:
                superseded.append(f"{key} in {earlier}: {ended[earlier][key].invalid or 'see its history'}")
            if episode.judged.outcome != "invalid":
                source[key] = run_id
                invalid.pop(key, None)
            elif whole:
                source[key] = run_id
                invalid[key] = invalid.get(key, 0) + 1
            else:
                left[key] = run_id
                source.pop(key, None)
                invalid.pop(key, None)
    done = len(source) == planned
    problems = tuple(run.problem for run in runs if run.problem) or (() if runs else ("it has no run",))
    return ArmFacts(
        planned,
        [episode for run in runs for episode in run.episodes if source.get(episode.episode) == run.run_id],
        () if done else problems,
        tuple(dict.fromkeys(because for run in runs for because in run.invalid_because)),
        invalid,
        tuple(superseded),
        source,
    )


def facts_of_one(run: RunFacts) -> ArmFacts:
    """The facts of a single run, completed or not."""
    return ArmFacts(run.prompts, run.episodes, (run.problem,) if run.problem else (), run.invalid_because)


_EventT = TypeVar("_EventT", bound=Event)
# the merged history has at most one of each
_OF_RUNS = (RunStarted, RunFinished, RunSealed, Note)


@dataclass(frozen=True)
class ArmHistory:
    """``identified`` reads like the history of one run, each event with its id and its run's name; empty
    without any. ``problems`` says why episodes did not complete. ``source`` is the run that each episode is
    shown by. ``seconds``: how long the runs took, without the pauses between them.
    """

    identified: Sequence[tuple[str, Event]]
    problems: tuple[str, ...]
    source: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    @cached_property
    def events(self) -> list[Event]:
        return [event for _, event in self.identified]

    def judged(self, known: Mapping[str, EpisodeJudged] | None = None) -> RunJudgement:
        """Judge all runs as one; ``known`` as for ``judge_run``. Raises ``ValueError`` without an event."""
        judged = judge_identified(self.identified, known)
        return replace(judged, seconds=None if judged.finished is None else self.seconds)


def read_arm(
    logs: Path,
    run_ids: Sequence[str],
    planned: int,
    known: Mapping[str, Sequence[Event]] = MappingProxyType({}),
) -> ArmHistory:
    """Merge all events of the runs, for callers that need them; figures come from ``ArmFacts``.

    ``planned`` is the number of episodes; ``known`` has the events of runs that were read already. A killed
    run contributes the episodes that it had judged. The episode it was in did not complete; it is shown as
    interrupted unless another run completed it.
    """
    runs, problems = _read_runs(logs, run_ids, known)
    started = next((event for events in runs.values() for event in _of_kind(events, RunStarted)), None)
    if started is None:
        return ArmHistory([], (*problems, *(["it has no run"] if not run_ids else [])))
    counting = put_together([_recorded_facts(*run) for run in runs.items()], planned).source
    begun = {each.episode: run_id for run_id in runs for each in _of_kind(runs[run_id], EpisodeStarted)}
    source = {**begun, **counting}
    of_episodes = [
        (f"{run_id}/{id}", event)
        for run_id, of_run in runs.items()
        for id, event in with_ids(of_run)
        if not isinstance(event, _OF_RUNS) and _belongs(event, source, run_id)
    ]
    done = len(counting) == planned
    ends = [*_of_kind(chain(*runs.values()), RunFinished)]
    end = ends[-1] if ends else RunFinished(started.t, done, "", None)
    never = [name for name in end.never_called if all(_names(each, name) for each in ends)]
    left = [runs[begun[key]] for key in begun.keys() - counting.keys()]
    reasons = {next((end.reason for end in _of_kind(run, RunFinished)), None) for run in left}
    last = reasons or {each.reason for each in ends[-1:]}
    interrupted = not problems or all(reason is None or is_interruption(reason) for reason in last)
    reason = "" if done else INTERRUPTED_LINE if interrupted else "; ".join(problems)
    # each run names the word and the worst finding of its episodes alone
    whole = structs.replace(end, completed=done, reason=reason, never_called=never, worst=None, word="")
    begin = "", structs.replace(started, prompts=planned)
    # without its end an episode is judged as killed
    ending = [] if None in reasons else [("", whole)]
    reasons_left = () if done else tuple(problems)
    return ArmHistory([begin, *of_episodes, *ending], reasons_left, source, _seconds(runs.values()))


def _seconds(runs: Iterable[Sequence[Event]]) -> float:
    """Return how long any of the runs lasted; a killed one lasted until its last event."""
    begun = ((started.t, max(map(moment_of, run))) for run in runs for started in _of_kind(run, RunStarted))
    seconds, ended = 0.0, -math.inf
    for start, end in sorted(begun):
        seconds += max(end - max(start, ended), 0.0)
        ended = max(end, ended)
    return seconds


def _names(end: RunFinished, name: NeverCalled) -> bool:
    return any((each.by, each.name) == (name.by, name.name) for each in end.never_called)


def _recorded_facts(run_id: str, events: Sequence[Event]) -> RunFacts:
    """The recorded judgements alone."""
    problem = why_cut_short(run_id, next(_of_kind(events, RunFinished), None))
    return RunFacts(run_id, tuple(map(EpisodeFacts, _of_kind(events, EpisodeJudged))), problem=problem)


def _read_runs(
    logs: Path, run_ids: Sequence[str], known: Mapping[str, Sequence[Event]]
) -> tuple[dict[str, Sequence[Event]], list[str]]:
    """The events of each readable run, and the problems of the others and of those that ended early."""
    runs: dict[str, Sequence[Event]] = {}
    problems: list[str] = []
    for run_id in run_ids:
        try:
            runs[run_id] = known[run_id] if run_id in known else read_history(logs, run_id).events()
        except (HistoryError, ValueError, OSError) as error:
            problems.append(f"the history of {run_id} cannot be read: {error}")
            continue
        if problem := why_cut_short(run_id, next(_of_kind(runs[run_id], RunFinished), None)):
            problems.append(problem)
    return runs, problems


def _of_kind(events: Iterable[Event], kind: type[_EventT]) -> Iterator[_EventT]:
    return (event for event in events if isinstance(event, kind))


def _belongs(event: Event, source: Mapping[str, str], run_id: str) -> bool:
    episode = getattr(event, "episode", None)
    return episode is None or source.get(episode) == run_id
