"""The history of an arm: that of one run, or what several runs have flown of it side by side or in turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TypeVar

from wirefault.experiments.counting_run import RunVerdicts, counting_runs, why_cut_short
from wirefault.history.events import (
    EpisodeJudged,
    Event,
    Note,
    RunFinished,
    RunSealed,
    RunStarted,
)
from wirefault.history.reader import HistoryError, read_history

_EventT = TypeVar("_EventT", bound=Event)
# of these one stands for all runs, or none
_OF_RUNS = (RunStarted, RunFinished, RunSealed, Note)


@dataclass(frozen=True)
class ArmHistory:
    """``events``: as of one run, empty if there is none. ``problems``: why episodes did not come to their
    end, a sentence each."""

    events: list[Event]
    problems: tuple[str, ...]


def read_arm(logs: Path, run_ids: Sequence[str], planned: int) -> ArmHistory:
    """All events of the runs put together, for what needs them: the figures come from ``arm_facts``.

    ``planned``: the episodes of the arm. A run that was killed gives what it had judged; the episode in which
    that happened counts as not flown, also where the run still saw that its lab was lost.
    """
    runs, problems = _read_runs(logs, run_ids)
    started = next((event for events in runs.values() for event in _of_kind(events, RunStarted)), None)
    if started is None:
        return ArmHistory([], (*problems, *(["it has no run"] if not run_ids else [])))
    source = counting_runs({run_id: _verdicts(events) for run_id, events in runs.items()}).source
    of_episodes = [
        event
        for run_id, of_run in runs.items()
        for event in of_run
        if not isinstance(event, _OF_RUNS) and _belongs(event, source, run_id)
    ]
    done = len(source) == planned
    finished = next(reversed([*_of_kind(chain(*runs.values()), RunFinished)]), None)
    end = finished or RunFinished(started.t, done, "", None)
    whole = replace(end, completed=done, reason="" if done else "; ".join(problems))
    begin = replace(started, prompts=planned)
    return ArmHistory([begin, *of_episodes, whole], () if done else tuple(problems))


def _verdicts(events: Sequence[Event]) -> RunVerdicts:
    return RunVerdicts(
        whole=any(finished.completed for finished in _of_kind(events, RunFinished)),
        outcomes={judged.episode: judged.outcome for judged in _of_kind(events, EpisodeJudged)},
    )


def _read_runs(logs: Path, run_ids: Sequence[str]) -> tuple[dict[str, list[Event]], list[str]]:
    """The events of each run that can be read, and what is wrong with the others and with those cut short."""
    runs: dict[str, list[Event]] = {}
    problems: list[str] = []
    for run_id in run_ids:
        try:
            runs[run_id] = read_history(logs, run_id).events()
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
