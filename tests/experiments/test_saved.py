"""A saved experiment is continued and repeated without loss."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from wirefault.core.errors import InputError
from wirefault.experiments.evidence import AlteredError
from wirefault.experiments.experiment_file import load_experiment
from wirefault.experiments.plan import ExperimentPlan
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.saved import load_saved, save
from wirefault.history.events import Note, ToxicsChanged
from wirefault.history.writer import Writer

WIRING = {
    "links": {"shop": {"upstream": "http://127.0.0.1:9000", "env": "SHOP_URL"}},
    "subject": {"command": ["python", "agent.py", "{prompt}"]},
}


@pytest.fixture
def plan(tmp_path: Path) -> ExperimentPlan:
    (tmp_path / "w.json").write_text(json.dumps(WIRING), encoding="utf-8")
    data = {
        "title": "x",
        "wiring": "w.json",
        "prompts": [{"prompt": "Hello", "expect": {"answer": {"contains": "Hi"}}}],
        "repeats": 3,
        "settings": {"attempt_time": 7},
        "variants": {"late": {"faults": {"toxics": [{"toxic": "latency"}]}, "hypothesis": ["no crash"]}},
        "hypothesis": ["no duplicate"],
    }
    (tmp_path / "exp.json").write_text(json.dumps(data), encoding="utf-8")
    return plan_experiment(load_experiment(tmp_path / "exp.json"), {"LOGS_DIR": str(tmp_path / "logs")})


def environ(plan: ExperimentPlan) -> dict[str, str]:
    return {"LOGS_DIR": str(plan.configuration.logs)}


def test_saved_plan_is_same_plan(plan: ExperimentPlan) -> None:
    save(plan, "e1")
    again = load_saved(plan.configuration.logs, "latest", environ(plan)).plan
    assert (again.arms, again.experiment) == (plan.arms, plan.experiment)
    assert [replace(prompt, place=0) for prompt in again.prompts] == [
        replace(prompt, place=0) for prompt in plan.prompts
    ]
    assert again.configuration.wiring.links == plan.configuration.wiring.links
    assert again.configuration.wiring.subject == plan.configuration.wiring.subject


def test_runs_of_arm_have_own_names(plan: ExperimentPlan) -> None:
    saved, late = save(plan, "e1"), plan.arms[1]
    assert saved.next_run_ids(late, 2) == ["e1-2-late", "e1-2-late.2"]
    for name in saved.next_run_ids(late, 10):
        (plan.configuration.logs / "runs" / name).mkdir(parents=True)
        (plan.configuration.logs / "runs" / name / "agent-0.jsonl").write_text("{}\n", encoding="utf-8")
    assert saved.next_run_ids(late, 1) == ["e1-2-late.11"]
    assert saved.run_ids(late)[-2:] == ["e1-2-late.9", "e1-2-late.10"]  # by number, not by name
    assert "the history of e1-2-late cannot be read" in saved.arm_result(late).failure


def test_killed_run_keeps_its_id(plan: ExperimentPlan) -> None:
    saved, late = save(plan, "e1"), plan.arms[1]
    for run_id in saved.next_run_ids(late, 2):
        saved.write_prompts(plan.prompts, run_id)
    (plan.configuration.logs / "runs" / "e1-2-late.2").mkdir(parents=True)
    assert saved.next_run_ids(late, 2) == ["e1-2-late.3", "e1-2-late.4"]


def test_run_killed_before_it_began_is_no_run(plan: ExperimentPlan) -> None:
    """Its folder is empty, or its file has notes alone; a history that lost its beginning has begun."""
    saved, late = save(plan, "e1"), plan.arms[1]
    empty, noted, lost = (plan.configuration.logs / "runs" / name for name in saved.next_run_ids(late, 3))
    for folder in (empty, noted, lost):
        saved.write_prompts(plan.prompts, folder.name)
        folder.mkdir(parents=True)
    for folder in (noted, lost):
        Writer(folder / "agent-0.jsonl").write(Note(1.0, "info", "tap: namespace"))
    Writer(lost / "manager-0.jsonl").write(ToxicsChanged(1.0, "one", 1, "armed"))
    assert saved.run_ids(late) == [lost.name]
    failure = saved.arm_result(late).failure
    assert f"the run {noted.name} has left no history" in failure
    assert f"the history of {lost.name} cannot be read" in failure


def test_run_without_history_shows_last_output(plan: ExperimentPlan) -> None:
    saved, late = save(plan, "e1"), plan.arms[1]
    saved.write_prompts(plan.prompts, "e1-2-late")
    expected = "3 episodes did not complete: the run e1-2-late has left no history: "
    assert saved.arm_result(late).failure == f"{expected}and said nothing"
    (saved.folder / "e1-2-late.txt").write_text("ready\nerror: no lane\n", encoding="utf-8")
    assert saved.arm_result(late).failure == f"{expected}error: no lane"


def test_run_after_lost_one_is_not_overwritten(plan: ExperimentPlan) -> None:
    saved, late = save(plan, "e1"), plan.arms[1]
    (plan.configuration.logs / "runs" / "e1-2-late.2").mkdir(parents=True)
    assert saved.next_run_ids(late, 2) == ["e1-2-late.3", "e1-2-late.4"]


def test_missing_or_incomplete_experiment_is_reported(plan: ExperimentPlan) -> None:
    logs = plan.configuration.logs
    with pytest.raises(InputError, match="no runs; start one with"):
        load_saved(logs, "latest", environ(plan))
    (save(plan, "e1").folder / "plan.json").write_text("{", encoding="utf-8")
    with pytest.raises(AlteredError, match=r"plan\.json:2: altered"):
        load_saved(logs, "e1", environ(plan))
    (logs / "experiments" / "e1" / "manifest.json").unlink()
    with pytest.raises(InputError, match=r"plan\.json: cannot be read"):
        load_saved(logs, "e1", environ(plan))
