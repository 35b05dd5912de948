"""Reading recorded runs: timeline, effect of each fault, repetition, comparison."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_experiments import run, wirefault

pytestmark = pytest.mark.slow

LOST = """
title: Lost replies
only: ["14", "18"]
repeats: 2
seed: 7
method:
  faults: {faults: [{fault: lose_reply, id: lost, links: tools, when: {probability: 0.5}}]}
hypothesis: [no crash]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reading")
    (folder / "lost.yaml").write_text(LOST, encoding="utf-8")
    done = run(folder, "lost.yaml")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def experiment(folder: Path) -> str:
    [saved] = (folder / ".wirefault" / "logs" / "experiments").iterdir()
    return saved.name


def read(folder: Path, *words: str) -> Any:
    return json.loads(wirefault(folder, *words, "--json").stdout)


def kinds(timeline: dict[str, Any]) -> list[str]:
    return [line["kind"] for line in timeline["timeline"]]


@pytest.fixture(scope="module")
def struck(folder: Path, experiment: str) -> list[dict[str, Any]]:
    """The timelines of the arm with faults."""
    return [read(folder, "show", experiment, place) for place in "1234"]


def test_shadow_marks_faults_of_arm(folder: Path, experiment: str, struck: list[Any]) -> None:
    control_episodes = [read(folder, "show", experiment, place, "--arm", "control") for place in "1234"]
    faulted = ["fault" in kinds(timeline) for timeline in struck]
    assert ["shadow" in kinds(timeline) for timeline in control_episodes] == faulted
    [effect] = read(folder, "report", experiment)["effects"]
    assert effect["planned"] == effect["drawn"] == sum(faulted) > 0


def test_single_rerun_repeats_episode(folder: Path, experiment: str, struck: list[Any]) -> None:
    before = next(timeline for timeline in struck if "fault" in kinds(timeline))
    wirefault(folder, "run", "--again", experiment, "--episode", before["episode"], "--toxiproxy", "embedded")
    again = read(folder, "show", "latest", "1")
    assert (again["episode"], kinds(again)) == (before["episode"], kinds(before))
    compared = read(folder, "compare", experiment, "latest")
    assert [(arm["changed"], arm["success"]["value"]) for arm in compared["arms"]] == [([], 0.0)] * 3
