"""Recorded runs whose episodes succeeded, were interrupted, or failed in the lab."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from tests.judging.oracle.histories import episode, judge_episode
from tests.support import replace
from wirefault.history.events import AttemptHealed, Event, RunFinished, RunSealed, RunStarted
from wirefault.history.writer import Writer, history_file


def episode_events(key: str, *, judged: bool = True) -> list[Event]:
    events: list[Event] = [replace(event, episode=key) for event in episode(expect={})]
    return [*events, replace(judge_episode(events), t=time.time())] if judged else events[:2]


def write(logs: Path, run_id: str, events: Sequence[Event]) -> None:
    path = history_file(logs, run_id, "agent", 0)
    path.parent.mkdir(parents=True)
    writer = Writer(path)
    for event in events:
        writer.write(replace(event, run_id=run_id) if isinstance(event, RunStarted) else event)
    if isinstance(events[-1], RunFinished):
        writer.write(RunSealed({}))
    writer.close()


def invalid(key: str) -> list[Event]:
    """An episode in which the lab failed."""
    events = episode_events(key, judged=False)
    healed = AttemptHealed(1.0, key, 1, None, "not armed within 2 s")
    return [*events, healed, replace(judge_episode([*events, healed]), t=1.0)]
