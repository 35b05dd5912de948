"""Which episodes and arms of a plan run again."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.report.synthetic import SyntheticRun
from wirefault.core.errors import InputError
from wirefault.experiments.experiment_file import load_experiment
from wirefault.experiments.plan import ExperimentPlan
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.recorded import repeated_part, saved_plan
from wirefault.experiments.saved import save

EXPERIMENT = {
    "title": "x",
    "prompts": [{"id": "a", "prompt": "A"}, {"id": "b", "prompt": "B"}],
    "repeats": 2,
    "variants": {name: {"settings": {"error_prob": 0.5}} for name in ("few", "many")},
    "hypothesis": ["no crash"],
}


@pytest.fixture
def plan(tmp_path: Path) -> ExperimentPlan:
    path = tmp_path / "experiment.json"
    path.write_text(json.dumps(EXPERIMENT), encoding="utf-8")
    return plan_experiment(load_experiment(path), {"LOGS_DIR": str(tmp_path)})


@pytest.mark.parametrize(
    ("episodes", "ran"),
    [([], ["a", "b", "a.r2", "b.r2"]), (["a.r2"], ["a.r2"]), (["4", "a", "1"], ["a", "b.r2"])],
)
def test_episodes_are_selected_by_key_or_place(
    plan: ExperimentPlan, episodes: list[str], ran: list[str]
) -> None:
    part = repeated_part(plan, episodes, [])
    assert [prompt.key for prompt in part.prompts] == ran
    assert (part.arms, part.seed) == (plan.arms, plan.seed)


def test_arm_runs_with_its_controls(plan: ExperimentPlan) -> None:
    names = [arm.name for arm in repeated_part(plan, [], ["many"]).arms]
    assert names == ["control", "many", "control-after"]


@pytest.mark.parametrize(
    ("episodes", "arms", "message"),
    [
        (["a.r3"], [], "did you mean 'a.r2'?"),
        (["5"], [], "--episode 5: the experiment has no such episode; there are 4"),
        ([], ["man"], "did you mean 'many'?"),
        ([], ["control"], "no such arm with faults; valid: few, many"),
    ],
)
def test_unknown_arm_or_episode_is_reported(
    plan: ExperimentPlan, episodes: list[str], arms: list[str], message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        repeated_part(plan, episodes, arms)


def test_run_id_selects_its_arm(plan: ExperimentPlan, tmp_path: Path) -> None:
    save(plan, "e1")
    SyntheticRun(tmp_path, "e1-3-many", prompts=1).write()
    saved, arms = saved_plan(tmp_path, "e1-3-many", {"LOGS_DIR": str(tmp_path)})
    assert (saved.plan.arms, arms) == (plan.arms, ["many"])
    for name in ("e1", "latest"):
        saved, arms = saved_plan(tmp_path, name, {"LOGS_DIR": str(tmp_path)})
        assert (saved.plan.arms, arms) == (plan.arms, ())


def test_run_without_plan_is_reported(tmp_path: Path) -> None:
    SyntheticRun(tmp_path, "run-a", prompts=1).write()
    with pytest.raises(InputError, match="wirefault runs verify run-a ends with the line that repeats it"):
        saved_plan(tmp_path, "run-a", {})
