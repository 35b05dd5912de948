"""Comparison of two runs: when the second is worse, and when that is unknown."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.judging.oracle.histories import ended, episode, healed, run_finished, run_started
from tests.support import replace
from wirefault.experiments.compare import ArmComparison, compare, side_of
from wirefault.experiments.recorded import Recording, open_recording
from wirefault.history.events import RunSealed
from wirefault.history.writer import Writer, history_file
from wirefault.settings.settings import Settings

RIGHT = [{"value": 4.0, "unit": None}]
FOUR = {"values": [{"number": 4}]}


@dataclass
class SavedRuns:
    """Runs without faults, with these outcomes: S for success, F for honest failure, I for invalid."""

    logs: Path

    def run(
        self, run_id: str, outcomes: str, names: str = "", completed: bool = True, **more: Any
    ) -> Recording:
        places = more.pop("places", [0] * len(outcomes))
        values = {"toxic_prob": 0.0, "error_prob": 0.0, **more.pop("settings", {})}
        settings = Settings(seed=1, **values).model_dump()
        start = replace(run_started(len(outcomes)), run_id=run_id, settings=settings, **more)
        writer = Writer(history_file(self.logs, run_id, "agent", 0))
        events = [start]
        for place, outcome in enumerate(outcomes):
            name = names[place] if names else f"e{place}"
            end = ended("done" if outcome == "S" else "failed", RIGHT if outcome == "S" else [], episode=name)
            heal = healed(episode=name, invalid="the lab failed" if outcome == "I" else None)
            first, *rest = episode(end, heal, expect=FOUR, name=name)
            events += [replace(first, place=places[place]), *rest]
        for event in [*events, run_finished(completed=completed), RunSealed({})]:
            writer.write(event)
        writer.close()
        return open_recording(self.logs, run_id, {})


@pytest.fixture
def saved_runs(tmp_path: Path) -> SavedRuns:
    return SavedRuns(tmp_path)


def compared(saved_runs: SavedRuns, first: str, second: str, **more: Any) -> ArmComparison:
    [arm] = compare(
        side_of(saved_runs.run("run-1", first)), side_of(saved_runs.run("run-2", second, **more))
    ).arms
    return arm


@pytest.mark.parametrize(
    ("first", "second", "change"),
    [
        ("SSSSSSSSSS", "SSFFFFFFFF", "worse"),
        ("SSSSSSSSSS", "SSSSSSSSSS", "not worse"),
        ("SSFFFFFFFF", "SSSSSSSSSS", "not worse"),
        ("SSSSSSSSSS", "SSSSSSSSSF", "not worse"),  # one of ten is weak evidence
        ("SSSSSSSSSS", "SSFFFFFFII", "worse"),  # even if both had succeeded
        ("SSSSSSSSSS", "SSSSSFIIII", "unknown"),
        ("SS", "FF", "not worse"),  # two pairs exclude nothing
        ("SS", "II", "unknown"),
    ],
)
def test_worse_only_if_worse_for_any_open_outcome(
    saved_runs: SavedRuns, first: str, second: str, change: str
) -> None:
    assert compared(saved_runs, first, second).change == change


def test_episodes_are_paired_by_key(saved_runs: SavedRuns) -> None:
    one, other = saved_runs.run("run-1", "SSF", "abc"), saved_runs.run("run-2", "FSS", "cad")
    [arm] = compare(side_of(one), side_of(other)).arms
    assert (arm.paired, arm.unmatched, arm.open) == (True, 2, 0)
    assert arm.success is not None and (arm.success.value, arm.success.n) == (0.0, 2)
    assert arm.changed == []


def test_without_common_episode_groups_are_compared(saved_runs: SavedRuns) -> None:
    [arm] = compare(
        side_of(saved_runs.run("run-1", "SS", "ab")), side_of(saved_runs.run("run-2", "SF", "cd"))
    ).arms
    assert arm.success is not None and (arm.paired, arm.success.value) == (False, -0.5)


def test_incomplete_run_is_not_reported_as_no_worse(saved_runs: SavedRuns) -> None:
    arm = compared(saved_runs, "SSSS", "SS", completed=False)
    assert (arm.change, arm.differs["completed"]) == ("unknown", ("yes", "no"))


def test_changed_outcomes_are_named(saved_runs: SavedRuns) -> None:
    arm = compared(saved_runs, "SSF", "SFI")
    assert [(c.episode, c.first, c.second) for c in arm.changed] == [
        ("e1", "success", "honest_failure"),
        ("e2", "honest_failure", "invalid"),
    ]


def test_different_settings_and_versions_are_named(saved_runs: SavedRuns) -> None:
    arm = compared(saved_runs, "S", "S", settings={"tool_limit": 3}, versions={"wirefault": "9"})
    assert dict(arm.differs) == {"tool_limit": ("1", "3"), "version of wirefault": ("unknown", "9")}


def test_different_measures_are_listed(saved_runs: SavedRuns) -> None:
    measures = compared(saved_runs, "SS", "SF").measures
    assert list(measures) == [
        "success_rate",
        "success_share",
        "success",
        "honest_failure",
        "failures",
    ]
    assert measures["success"][1].startswith("1 of 2")
