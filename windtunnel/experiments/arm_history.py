"""The history of an arm: that of one run, or what several runs have flown of it side by side or in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from windtunnel.history.events import EpisodeJudged, Event, Note, RunFinished, RunSealed, RunStarted
from windtunnel.history.reader import HistoryError, read_history

_EventT = TypeVar("_EventT", bound=Event)
# of these one stands for all runs, or none
_OF_RUNS = (RunStarted, RunFinished, RunSealed, Note)


@dataclass(frozen=True)
class ArmHistory:
    """``events``: as of one run. ``flown``: the episodes that came to their end; ``problems``: why others did
    not, a sentence each."""

    events: list[Event]
    flown: frozenset[str]
    problems: tuple[str, ...]


def read_arm(logs: Path, run_ids: Sequence[str], planned: int) -> ArmHistory:
    """Puts the runs together, each episode from the first run that judged it.

    ``planned``: the episodes of the arm. A run that was killed gives what it had judged; the episode in which
    that happened counts as not flown.
    """
    events: list[Event] = []
    flown: set[str] = set()
    problems: list[str] = []
    started: RunStarted | None = None
    finished: RunFinished | None = None
    for run_id in run_ids:
        try:
            of_run = read_history(logs, run_id).events()
        except (HistoryError, ValueError, OSError) as error:
            problems.append(f"the history of {run_id} cannot be read: {error}")
            continue
        started = started or next(_of_kind(of_run, RunStarted), None)
        finished = next(_of_kind(of_run, RunFinished), None)
        if finished is None or not finished.completed:
            reason = finished.reason if finished else "it was killed"
            problems.append(f"the run {run_id} ended early: {reason}")
        judged = {event.episode for event in _of_kind(of_run, EpisodeJudged)} - flown
        events += [e for e in of_run if not isinstance(e, _OF_RUNS) and _belongs(e, judged)]
        flown |= judged
    if started is None:
        return ArmHistory([], frozenset(), (*problems, *(["it has no run"] if not run_ids else [])))
    done = len(flown) == planned
    end = finished or RunFinished(started.t, done, "", None)
    whole = replace(end, completed=done, reason="" if done else "; ".join(problems))
    return ArmHistory(
        [replace(started, prompts=planned), *events, whole], frozenset(flown), () if done else tuple(problems)
    )


def _of_kind(events: Sequence[Event], kind: type[_EventT]) -> Iterator[_EventT]:
    return (event for event in events if isinstance(event, kind))


def _belongs(event: Event, episodes: set[str]) -> bool:
    episode = getattr(event, "episode", None)
    return episode is None or episode in episodes
