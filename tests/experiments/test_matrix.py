"""One file for every combination of its choices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from wirefault import Experiment, Matrix
from wirefault.core.errors import InputError
from wirefault.experiments.experiment_file import load_experiment, load_experiments, python_experiment
from wirefault.experiments.plan import ExperimentPlan
from wirefault.experiments.plan_experiment import plan_experiment

ONE: dict[str, Any] = {"title": "T", "seed": 1, "only": ["1"], "hypothesis": ["no crash"]}


def plans(folder: Path, **more: Any) -> list[ExperimentPlan]:
    path = folder / "e.yaml"
    path.write_text(yaml.safe_dump(ONE | more), encoding="utf-8")
    return [plan_experiment(each, {"LOGS_DIR": str(folder)}) for each in load_experiments(path)]


def test_faults_and_doses_are_arms_with_one_control(tmp_path: Path) -> None:
    matrix = {"faults": ["lost-replies", {"toxics": [{"toxic": "latency"}]}], "doses": [0.5, 2]}
    [plan] = plans(tmp_path, matrix=matrix)
    names = ["lost-replies-x0.5", "lost-replies-x2", "faults-2-x0.5", "faults-2-x2"]
    assert [arm.name for arm in plan.arms] == ["control", *names, "control-after"]
    assert plan.arms[4].capped and not plan.arms[3].capped
    assert plan.arms[1].settings.faults != plan.arms[2].settings.faults


def test_change_of_control_is_separate_experiment(tmp_path: Path) -> None:
    matrix = {"settings": {"persona": ["diligent", "quitter"]}, "prompts": [[{"prompt": "a"}], "p.json"]}
    (tmp_path / "p.json").write_text('[{"prompt": "b"}, {"prompt": "c"}]', encoding="utf-8")
    many = plans(tmp_path, matrix=matrix, only=[], method={"faults": "lost-replies"})
    cells = [(p.experiment.title, p.arms[0].settings.persona, len(p.prompts)) for p in many]
    assert cells == [
        ("T [persona=diligent, prompts=in place]", "diligent", 1),
        ("T [persona=diligent, prompts=p.json]", "diligent", 2),
        ("T [persona=quitter, prompts=in place]", "quitter", 1),
        ("T [persona=quitter, prompts=p.json]", "quitter", 2),
    ]


def test_subjects_run_as_on_command_line(tmp_path: Path) -> None:
    many = plans(tmp_path, matrix={"faults": ["light"], "subjects": ["lab", "other:agent"]})
    assert [plan.subject for plan in many] == ["lab", "other:agent"]


@pytest.mark.parametrize(
    ("more", "wrong"),
    [
        ({"matrix": {"doses": [1]}}, "needs one of `method`, `variants` and `faults` of a `matrix`"),
        ({"matrix": {"faults": ["light"]}, "method": {"faults": "light"}}, "needs one of `method`"),
        ({"matrix": {"faults": ["light"], "doses": [0]}}, "matrix.doses[1]"),
        ({"matrix": {"faults": ["light"], "dose": [1]}}, "did you mean 'doses'"),
        ({"matrix": {"faults": ["light"], "settings": {"sed": [1]}}}, "sed is not a setting"),
        ({"matrix": {"faults": ["light"], "settings": {"persona": []}}}, "settings.persona has no value"),
        ({"matrix": {"faults": ["light"], "settings": {"error_prob": [0, 0.5]}}}, "would affect the control"),
        ({"matrix": {"faults": ["light", "a/light.yaml"]}}, "two of them have the name light"),
        (
            {"matrix": {"faults": ["light"], "doses": list(range(1, 99)), "subjects": ["a", "b", "c"]}},
            "98 x 3",
        ),
    ],
)
def test_invalid_matrix_names_place(tmp_path: Path, more: Any, wrong: str) -> None:
    with pytest.raises(InputError) as caught:
        plans(tmp_path, **more)
    assert wrong in str(caught.value) and "e.yaml" in str(caught.value)


def test_matrix_is_refused_for_single_experiment(tmp_path: Path) -> None:
    plans(tmp_path, matrix={"faults": ["light"], "subjects": ["a", "b"]})
    with pytest.raises(match="makes 2 experiments"):
        load_experiment(tmp_path / "e.yaml")


def test_matrix_in_python_is_the_arms_of_one_experiment(tmp_path: Path) -> None:
    matrix = Matrix(faults=["unavailable", "hang"], doses=[0.5, 1])
    experiment = Experiment(subject=str.upper, prompts=["x"], checks=["no crash"], matrix=matrix)
    read = python_experiment(experiment, tmp_path).experiment
    assert list(read.faulted_arms) == ["unavailable-x0.5", "unavailable-x1", "hang-x0.5", "hang-x1"]
    assert read.subject is str.upper
    several = experiment.model_copy(
        update={"matrix": Matrix(faults=["hang"], settings={"tool_limit": [1, 2]})}
    )
    with pytest.raises(InputError, match="Experiment: matrix: makes 2 experiments"):
        python_experiment(several, tmp_path)
