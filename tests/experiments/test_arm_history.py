"""The events of runs put together: each episode once, from the run that judged it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.experiments.recorded_runs import episode_events, invalid, write
from tests.judging.oracle.histories import run_finished, run_started
from tests.support import replace
from wirefault.core.interrupts import INTERRUPTED_LINE
from wirefault.experiments.arms import ArmFacts, read_arm
from wirefault.history.events import EpisodeJudged, EpisodeStarted, Event, RunFinished
from wirefault.history.judged_events import Finding
from wirefault.judging.judge import recorded_judgements
from wirefault.judging.summary import summarise, summary_of


def test_verdicts_of_killed_run_are_kept(tmp_path: Path) -> None:
    write(tmp_path, "a", [run_started(3), *episode_events("one"), *episode_events("two", judged=False)])
    write(tmp_path, "a.2", [run_started(2), *episode_events("two"), *episode_events("three"), run_finished()])
    broken = read_arm(tmp_path, ["a"], 3)
    assert broken.problems == ("the run a ended early: it was killed",)
    whole = read_arm(tmp_path, ["a", "a.2"], 3)
    summary = summarise(whole.events)
    assert [judged.episode for judged in summary.episodes] == ["one", "two", "three"]
    assert (summary.completed, summary.success.k, summary.success.planned) == (True, 3, 3)
    assert whole.problems == ()


@pytest.mark.parametrize(
    ("end", "why"),
    [
        ([run_finished(completed=False, reason=INTERRUPTED_LINE)], "interrupted before its end"),
        ([], "still running, or interrupted: it has no end"),
    ],
)
def test_episode_in_which_a_run_was_stopped_is_unjudged(tmp_path: Path, end: list[Event], why: str) -> None:
    write(tmp_path, "a", [run_started(3), *episode_events("one"), run_finished(completed=False)])
    write(tmp_path, "a.2", [run_started(2), *episode_events("two", judged=False), *end])
    history = read_arm(tmp_path, ["a", "a.2"], 3)
    summary = summarise(history.events)
    assert [(each.outcome, each.why) for each in summary.episodes[1:]] == [("unjudged", why)]
    assert (summary.completed, history.source) == (False, {"one": "a", "two": "a.2"})
    assert "1 of 3 prompts not run" in summary.remarks


def test_parallel_runs_are_merged(tmp_path: Path) -> None:
    for number in range(3):
        write(tmp_path, f"a.{number}", [run_started(1), *episode_events(f"e{number}"), run_finished()])
    history = read_arm(tmp_path, [f"a.{number}" for number in range(3)], 3)
    assert sum(isinstance(event, EpisodeJudged) for event in history.events) == 3
    assert [event.completed for event in history.events if isinstance(event, RunFinished)] == [True]


def test_episode_counts_once(tmp_path: Path) -> None:
    for run_id in ("a", "a.2"):
        write(tmp_path, run_id, [run_started(1), *episode_events("one"), run_finished()])
    assert len(summarise(read_arm(tmp_path, ["a", "a.2"], 1).events).episodes) == 1


def test_missing_history_is_reported(tmp_path: Path) -> None:
    assert "the history of a cannot be read" in read_arm(tmp_path, ["a"], 1).problems[0]
    assert read_arm(tmp_path, [], 1).problems == ("it has no run",)


def test_invalid_episode_counts_by_its_rerun(tmp_path: Path) -> None:
    write(tmp_path, "a", [run_started(2), *invalid("one"), *episode_events("two"), run_finished()])
    write(tmp_path, "a.2", [run_started(1), *episode_events("one"), run_finished()])
    events = read_arm(tmp_path, ["a", "a.2"], 2).events
    assert sum(isinstance(event, EpisodeJudged) for event in events) == 2
    assert summarise(events).success.k == 2


def test_recorded_evidence_has_the_name_of_its_run(tmp_path: Path) -> None:
    for run_id in ("a", "a.2"):
        *events, judged = episode_events(run_id)
        assert isinstance(judged, EpisodeJudged)
        finding = Finding("crash", "risky", "text", run_id, ("agent-0:2",))
        write(tmp_path, run_id, [run_started(1), *events, replace(judged, findings=(finding,))])
    history = read_arm(tmp_path, ["a", "a.2"], 3)
    recorded = recorded_judgements(history.identified)
    assert [each.findings[0].evidence[0] for each in recorded.values()] == ["a/agent-0:2", "a.2/agent-0:2"]
    assert [id for id, event in history.identified if isinstance(event, EpisodeStarted)] == [
        "a/agent-0:2",
        "a.2/agent-0:2",
    ]


def test_one_episode_is_not_plural() -> None:
    assert ArmFacts(1, [], ("it was killed",)).failure == "1 episode did not complete: it was killed"


def test_duration_leaves_out_the_pause_before_it_was_resumed(tmp_path: Path) -> None:
    """A killed run lasted until its last event; runs side by side count once."""
    runs = {"a": (100.0, 110.0), "a.2": (5000.0, 5004.0), "a.3": (5001.0, 5007.0)}
    for run_id, (start, end) in runs.items():
        *events, judged = episode_events(run_id)
        ends = [replace(judged, t=end), *([] if run_id == "a" else [replace(run_finished(), t=end)])]
        write(tmp_path, run_id, [replace(run_started(1), t=start), *events, *ends])
    history = read_arm(tmp_path, list(runs), 3)
    assert summary_of(history.judged()).duration_s == 17.0
