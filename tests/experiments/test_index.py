"""The list of recorded experiments, including unfinished and unreadable ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.experiments.test_run_experiment import PaperEngine, planned, run_on_paper
from wirefault.experiments.index import last_run_of, listed_run, run_names, saved_ids
from wirefault.experiments.saved import SavedExperiment


@pytest.fixture
def saved(tmp_path: Path) -> SavedExperiment:
    return planned(tmp_path)


def test_duration_of_last_run_is_known(saved: SavedExperiment) -> None:
    logs = saved.plan.configuration.logs
    assert last_run_of(logs, "On paper") is None
    run_on_paper(saved, PaperEngine())
    last = last_run_of(logs, "On paper")
    assert last is not None and (last.experiment_id, last.episodes) == (saved.experiment_id, 6)
    assert last_run_of(logs, "Another") is None


def test_each_experiment_is_listed_with_verdict_or_none(saved: SavedExperiment) -> None:
    logs, own = saved.plan.configuration.logs, saved.experiment_id

    def status() -> tuple[str, str, str]:
        run = listed_run(logs, own, is_saved=True)
        return run.verdict, run.worst, run.title

    assert saved_ids(logs) == [own] and status() == ("no verdict", "-", "On paper")
    run_on_paper(saved, PaperEngine())
    assert status() == ("unknown", "none", "On paper")  # no fault was met
    (saved.folder / "verdict.json").write_text("{", encoding="utf-8")
    assert status()[0] == "unreadable" and status()[2].startswith("verdict.json: ")
    assert last_run_of(logs, "On paper") is None
    (saved.folder / "plan.json").write_text("{", encoding="utf-8")
    assert saved_ids(logs) == [own] and status()[0] == "unreadable"


def test_names_of_runs_follow_a_settled_folder(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    assert run_names(tmp_path, "a") == []
    for name in ("a-2", "a-1", "b-1"):
        (runs / name).mkdir(parents=True)
    os.utime(runs, (1, 1))
    assert run_names(tmp_path, "a") == ["a-1", "a-2"]
    (runs / "a-3").mkdir()
    assert run_names(tmp_path, "a") == ["a-1", "a-2", "a-3"]
