"""Judges episodes and runs by their history. Pure: the same events give the same outcomes, at any time.

The runner calls ``judge_episode`` as each episode ends, ``wirefault judge`` calls ``judge_run`` later.
Events may come in any order between files; those of one file must be in the order written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from wirefault.history.events import EpisodeJudged, EpisodeStarted, Event, Exchange, RunFinished, RunStarted
from wirefault.judging.evidence.gather import gather
from wirefault.judging.evidence.record import FaultRecord, Unexplained
from wirefault.judging.oracle.episode import Episode, last
from wirefault.judging.oracle.outcome import Claim, Outcome
from wirefault.judging.oracle.value import ValueAxis
from wirefault.judging.oracle.world import World


@dataclass(frozen=True)
class EpisodeJudgement:
    """The verdict on one episode. ``why`` says in words what the outcome does not show by itself."""

    episode: str
    prompt: str
    outcome: Outcome
    world: World
    claim: Claim
    value: ValueAxis
    flags: list[str]
    attempts: int
    first_attempt_outcome: Outcome
    faults: tuple[FaultRecord, ...] = ()
    unexplained: tuple[Unexplained, ...] = ()
    why: str = ""

    def as_event(self, t: float) -> EpisodeJudged:
        """For the history."""
        return EpisodeJudged(
            t=t,
            episode=self.episode,
            outcome=self.outcome,
            world=self.world,
            claim=self.claim,
            value=self.value,
            flags=self.flags,
            attempts=self.attempts,
            first_attempt_outcome=self.first_attempt_outcome,
            faults=[fault.as_dict() for fault in self.faults],
        )


@dataclass(frozen=True)
class RunJudgement:
    """The verdicts of a run, episodes in the order in which they started.

    ``finished`` is None for a run that is still going or was killed; ``stray`` counts requests that
    belong to no episode of the run; ``differences`` says where the verdicts differ from those recorded.
    """

    started: RunStarted
    finished: RunFinished | None
    episodes: list[EpisodeJudgement]
    stray: int = 0
    differences: list[str] = field(default_factory=list)


def judge_run(events: Iterable[Event]) -> RunJudgement:
    """Scores a whole run. Raises ``ValueError`` if its beginning is not among the events."""
    events = list(events)
    started = last(events, RunStarted)
    if started is None:
        raise ValueError("no run_started in this history: is the agent's file missing?")
    finished = last(events, RunFinished)
    groups: dict[str, list[Event]] = {e.episode: [] for e in events if isinstance(e, EpisodeStarted)}
    stray = 0
    for event in events:
        name = getattr(event, "episode", None)
        if name in groups:
            groups[name].append(event)
        elif isinstance(event, Exchange):
            stray += 1
    episodes = [judge_episode(group, finished is not None) for group in groups.values()]
    recorded = {e.episode: e.outcome for e in events if isinstance(e, EpisodeJudged)}
    return RunJudgement(started, finished, episodes, stray, _differences(episodes, recorded))


def _differences(episodes: Iterable[EpisodeJudgement], recorded: Mapping[str, str]) -> list[str]:
    return [
        f"episode {judged.episode}: {judged.outcome}, recorded as {recorded[judged.episode]}"
        for judged in episodes
        if recorded.get(judged.episode, judged.outcome) != judged.outcome
    ]


def judge_episode(events: Iterable[Event], finished: bool = True) -> EpisodeJudgement:
    """Scores one episode by all its events. Raises ``ValueError`` without its ``EpisodeStarted``.

    ``finished`` is False while the run goes on and the end of this episode may still come: one whose end
    is not there is then ``unjudged``, else the lab failed and it is ``invalid``.
    """
    episode = Episode.of(list(events), finished)
    verdict = episode.judge()
    several = len(episode.attempts) > 1
    first = episode.first_attempt().judge() if several else verdict
    evidence = gather(episode.events)
    return EpisodeJudgement(
        episode=episode.started.episode,
        prompt=episode.started.prompt,
        outcome=verdict.outcome,
        world=verdict.axes.world,
        claim=verdict.axes.claim,
        value=verdict.axes.value,
        flags=verdict.flags,
        attempts=len(episode.attempts),
        first_attempt_outcome=first.outcome,
        faults=evidence.faults,
        unexplained=evidence.unexplained,
        why=verdict.why,
    )
