"""The plan of an experiment: nothing strikes the control, all arms share seed and prompts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from windtunnel.core.lab_files import sample_prompts
from windtunnel.experiments.arms import ExperimentPlan, dump_prompts, plan_experiment
from windtunnel.experiments.experiment_file import load_experiment
from windtunnel.judging.prompts import load_prompts

TWO = {
    "title": "x",
    "prompts": [{"prompt": "Hello", "id": "hello"}, {"turns": ["One", "Two"], "expect": {}}],
    "variants": {"cut": {"faults": "own.json"}, "err": {"settings": {"error_prob": 0.5}}},
    "hypothesis": ["no crash"],
}
LATENCY = {"toxics": [{"toxic": "latency", "links": "tools", "when": {"probability": 0.5}}]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own.json").write_text(json.dumps(LATENCY), encoding="utf-8")
    return tmp_path


def planned(folder: Path, changes: dict[str, Any] | None = None, **environ: str) -> ExperimentPlan:
    path = folder / "exp.json"
    path.write_text(json.dumps(TWO), encoding="utf-8")
    return plan_experiment(load_experiment(path, changes), {"LOGS_DIR": str(folder), **environ})


def test_only_what_an_arm_names_strikes_it(folder: Path) -> None:
    plan = planned(folder, TOXIC_PROB="1", ERROR_PROB="1", FAULTS="heavy", CHAOS_LEVEL="0.5")
    struck = {
        arm.name: (bool(arm.settings.faults), arm.settings.toxic_prob, arm.settings.error_prob)
        for arm in plan.arms
    }
    calm = (False, 0.0, 0.0)
    assert struck == {
        "control": calm,
        "cut": (True, 0.0, 0.0),
        "err": (False, 0.0, 0.5),
        "control-after": calm,
    }
    assert {arm.settings.chaos_level for arm in plan.arms} == {1.0}


def test_the_prompts_are_those_of_the_wiring_whatever_else_is_set(folder: Path) -> None:
    (folder / "own.txt").write_text('[{"prompt": "Mine"}]', encoding="utf-8")
    (folder / "lab.yaml").write_text(
        "title: x\nmethod: {faults: heavy}\nhypothesis: [no crash]", encoding="utf-8"
    )
    environ = {"LOGS_DIR": str(folder), "PROMPTS_FILE": str(folder / "own.txt")}
    plan = plan_experiment(load_experiment(folder / "lab.yaml"), environ)
    assert len(plan.prompts) == len(load_prompts(sample_prompts()).entries)


def test_a_seed_that_is_drawn_is_that_of_all_arms(folder: Path) -> None:
    plan = planned(folder)
    assert {arm.settings.seed for arm in plan.arms} == {plan.seed}
    assert planned(folder, {"seed": 9}).seed == 9


def test_a_repeated_prompt_has_draws_of_its_own(folder: Path) -> None:
    plan = planned(folder, {"repeats": 20, "seed": 1})
    keys = [prompt.key for prompt in plan.prompts]
    assert len(set(keys)) == 40 and keys[0] == "hello" and keys[2] == "hello.r2"
    drawn = plan.toxics_drawn(plan.arms[1])
    assert all(name.startswith("latency on ") and 0 < count < 40 for name, count in drawn.items())
    assert plan.toxics_drawn(plan.arms[0]) == {}


def test_the_saved_prompts_are_the_same_prompts(folder: Path) -> None:
    plan = planned(folder, {"repeats": 2})
    saved = folder / "prompts.json"
    saved.write_text(dump_prompts(plan.prompts), encoding="utf-8")
    same = [(prompt.key, prompt.text, prompt.turns, prompt.expect) for prompt in load_prompts(saved).entries]
    assert same == [(prompt.key, prompt.text, prompt.turns, prompt.expect) for prompt in plan.prompts]


def test_settings_of_all_arms_can_be_changed(folder: Path) -> None:
    plan = planned(folder, {"settings": {"model_timeout": "7"}})
    assert {arm.settings.model_timeout for arm in plan.arms} == {7.0}
