"""Trials: a fault on a link in one arm of an experiment, its outcome, and similar trials. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from wirefault.memory.episodes import Remembered, Result
from wirefault.memory.knowledge import Knowledge, Range, known_components
from wirefault.memory.learnings import Learning, learnings

SIMILARITY_WEIGHTS: Mapping[str, float] = {"type": 0.3, "target": 0.3, "parameters": 0.2, "affected": 0.2}
MIN_SIMILARITY = 0.7
# of the sum of the weights, which binary fractions do not show exactly
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Trial:
    """One fault on one link in one arm of an experiment, or in a lone run.

    ``outcome``: derived by ``trial_outcome``, or the user's own. ``parameters``: their doses.
    ``affected_components`` worked less often in its pairs. ``duration``: seconds of its episodes.
    """

    experiment_id: str
    arm: str
    timestamp: float
    experiment_type: str
    target_component: str
    parameters: Mapping[str, Range]
    outcome: str
    success_rate: float | None
    episodes: int
    mean_time_to_recovery: float | None
    affected_components: tuple[str, ...]
    duration: float
    learnings: tuple[Learning, ...]


def trial_outcome(results: Collection[Result]) -> Result:
    """The outcome of a trial by the results of its episodes; the first that applies.

    Unsafe if any episode was; interrupted if any was; unjudged if none could be judged; else success if all
    succeeded, failure if none did, even partly, and partial success otherwise.
    """
    for result in ("unsafe", "interrupted"):
        if result in results:
            return result
    judged = [result for result in results if result != "unjudged"]
    if not judged:
        return "unjudged"
    if all(result == "success" for result in judged):
        return "success"
    return "failure" if all(result == "failure" for result in judged) else "partial success"


def trials_in(episodes: Sequence[Remembered], own_outcomes: Mapping[str, str]) -> list[Trial]:
    """All trials, oldest first. ``own_outcomes``: by experiment or run; they replace the derived ones."""
    by_source: defaultdict[str, list[Remembered]] = defaultdict(list)
    for episode in episodes:
        by_source[episode.source].append(episode)
    trials: list[Trial] = []
    for source, of_source in by_source.items():
        calm = [each for each in of_source if not each.faults]
        arms = dict.fromkeys(each.arm for each in of_source if each.faults)
        for arm in arms:
            faulted = [each for each in of_source if each.arm == arm and each.faults]
            trials += [
                _trial(known, source, arm, faulted, own_outcomes.get(source, ""))
                for known in known_components([*faulted, *calm])
                if known.component.startswith("link ")
            ]
    return sorted(trials, key=lambda trial: trial.timestamp)


def _trial(known: Knowledge, source: str, arm: str, faulted: Iterable[Remembered], own: str) -> Trial:
    of_trial = [
        each
        for each in faulted
        if any(known.fault == f.kind and known.component in f.components for f in each.faults)
    ]
    return Trial(
        experiment_id=source,
        arm=arm,
        timestamp=min(each.time for each in of_trial),
        experiment_type=known.fault,
        target_component=known.component,
        parameters={each.name: _joined(each.survived, each.failed) for each in known.ranges},
        outcome=own or trial_outcome([each.result for each in of_trial]),
        success_rate=known.with_fault.rate,
        episodes=known.episodes,
        mean_time_to_recovery=known.recovery.seconds,
        affected_components=tuple(each.component for each in known.affected),
        duration=sum(each.seconds for each in of_trial),
        learnings=tuple(learnings(known)),
    )


def _joined(*ranges: Range | None) -> Range:
    known = [each for each in ranges if each is not None]
    return Range(min(r.low for r in known), max(r.high for r in known), sum(r.n for r in known))


def similarity(first: Trial, second: Trial) -> float:
    """The weighted similarity of two trials, in 0..1; see ``SIMILARITY_WEIGHTS``."""
    parts = {
        "type": float(first.experiment_type == second.experiment_type),
        "target": float(first.target_component == second.target_component),
        "parameters": jaccard(first.parameters, second.parameters),
        "affected": jaccard(first.affected_components, second.affected_components),
    }
    return min(sum(SIMILARITY_WEIGHTS[name] * part for name, part in parts.items()), 1.0)


def jaccard(first: Collection[str], second: Collection[str]) -> float:
    """The share of common names among all names of both; 1 if both are empty, since nothing differs."""
    union = {*first, *second}
    return len({*first} & {*second}) / len(union) if union else 1.0


def similar_trials(trial: Trial, trials: Iterable[Trial]) -> list[tuple[float, Trial]]:
    """The trials of other experiments that are similar enough, the most similar and newest first."""
    others = [(similarity(trial, each), each) for each in trials if each.experiment_id != trial.experiment_id]
    enough = [pair for pair in others if pair[0] >= MIN_SIMILARITY - _TOLERANCE]
    return sorted(enough, key=lambda pair: (-pair[0], -pair[1].timestamp))
