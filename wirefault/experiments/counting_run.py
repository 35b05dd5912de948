"""Which run of an arm each episode counts from: the first in which it is valid, else the last. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wirefault.history.events import RunFinished


@dataclass(frozen=True)
class RunVerdicts:
    """What a run says of the episodes that came to their end in it, by key, in their order.

    ``whole``: it came to its own end. ``reasons``: why episodes were invalid, where that is known.
    """

    whole: bool
    outcomes: Mapping[str, str]
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Superseded:
    """An episode that was invalid in that run, for the reason ``why``, and was flown again in another."""

    episode: str
    run_id: str
    why: str

    def __str__(self) -> str:
        return f"{self.episode} in {self.run_id}: {self.why or 'see its history'}"


@dataclass(frozen=True)
class CountingRuns:
    """``source``: from which run each episode is; ``invalid``: in how many runs those were that are."""

    source: Mapping[str, str]
    invalid: Mapping[str, int]
    superseded: tuple[Superseded, ...]


def why_cut_short(run_id: str, finished: RunFinished | None) -> str:
    """Why a run did not come to its own end, in words; empty if it did."""
    if finished is not None and finished.completed:
        return ""
    return f"the run {run_id} ended early: {finished.reason if finished else 'it was killed'}"


def counting_runs(runs: Mapping[str, RunVerdicts]) -> CountingRuns:
    """By the ids of the runs, in the order in which they were flown.

    What is invalid in a run that was broken off has not come to its end: what broke the run broke it, too.
    """
    source: dict[str, str] = {}
    invalid: dict[str, int] = {}
    left: dict[str, str] = {}
    superseded: list[Superseded] = []
    for run_id, run in runs.items():
        for episode, outcome in run.outcomes.items():
            if episode in source and episode not in invalid:
                continue  # it was judged already
            earlier = left.pop(episode, source.get(episode))
            if earlier is not None:
                superseded.append(Superseded(episode, earlier, runs[earlier].reasons.get(episode, "")))
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
