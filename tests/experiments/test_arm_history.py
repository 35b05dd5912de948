"""Runs put together: each episode once, from the run that judged it; one broken off is not flown."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tests.judging.oracle.histories import episode, run_finished, run_started
from windtunnel.experiments.arm_history import read_arm
from windtunnel.history.events import EpisodeJudged, Event, RunFinished
from windtunnel.history.writer import Writer, history_file
from windtunnel.judging.judge import judge_episode
from windtunnel.judging.summary import summarise


def flown(key: str, *, judged: bool = True) -> list[Event]:
    events: list[Event] = [replace(event, episode=key) for event in episode(expect={})]
    return [*events, judge_episode(events).as_event(time.time())] if judged else events[:2]


def write(logs: Path, run_id: str, events: Sequence[Event]) -> None:
    path = history_file(logs, run_id, "agent", 0)
    path.parent.mkdir(parents=True)
    writer = Writer(path)
    for event in events:
        writer.write(event)
    writer.close()


def test_what_a_killed_run_had_judged_stays(tmp_path: Path) -> None:
    write(tmp_path, "a", [run_started(3), *flown("one"), *flown("two", judged=False)])
    write(tmp_path, "a.2", [run_started(2), *flown("two"), *flown("three"), run_finished()])
    broken = read_arm(tmp_path, ["a"], 3)
    assert broken.flown == {"one"} and broken.problems == ("the run a ended early: it was killed",)
    whole = read_arm(tmp_path, ["a", "a.2"], 3)
    assert whole.flown == {"one", "two", "three"} and whole.problems == ()
    summary = summarise(whole.events)
    assert [judged.episode for judged in summary.episodes] == ["one", "two", "three"]
    assert (summary.completed, summary.success.k, summary.success.planned) == (True, 3, 3)


def test_runs_side_by_side_are_one(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path, f"a.{number}", [run_started(1), *flown(f"e{number}"), run_finished()])
    history = read_arm(tmp_path, [f"a.{number}" for number in range(3)], 3)
    assert sum(isinstance(event, EpisodeJudged) for event in history.events) == 3
    assert [event.completed for event in history.events if isinstance(event, RunFinished)] == [True]


def test_no_episode_counts_twice(tmp_path: Path) -> None:
    for run_id in ("a", "a.2"):
        write(tmp_path, run_id, [run_started(1), *flown("one"), run_finished()])
    assert len(summarise(read_arm(tmp_path, ["a", "a.2"], 1).events).episodes) == 1


def test_a_history_that_is_not_there_is_said(tmp_path: Path) -> None:
    assert "the history of a cannot be read" in read_arm(tmp_path, ["a"], 1).problems[0]
    assert read_arm(tmp_path, [], 1).problems == ("it has no run",)
