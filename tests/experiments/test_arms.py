"""The plan of an experiment: the control has no faults, and all arms share seed and prompts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import replace
from wirefault.core.errors import InputError
from wirefault.core.lab_folder import sample_prompts
from wirefault.experiments.experiment_file import load_experiment
from wirefault.experiments.plan import ExperimentPlan
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.planned_prompts import dump_prompts
from wirefault.faults.sets.presets import read_canonical
from wirefault.history.events import ShadowToxic
from wirefault.report.experiment_plan import (
    agent_line,
    count_lines,
    head_lines,
    oracle_lines,
    undecidable_lines,
)
from wirefault.runner.attempts import shadow_toxics
from wirefault.settings.episode_faults import is_outside_radius, plan_attempt, shadow_arms
from wirefault.wiring.links import lab_links
from wirefault.wiring.prompts import PromptsError, load_prompts
from wirefault.wiring.wiring import lab_wiring, load_wiring

TWO = {
    "title": "x",
    "subject": "my_agent:open_subject",
    "prompts": [
        {"prompt": "Hello", "id": "hello", "next_turn": "user.py:more", "max_turns": 3},
        {"turns": ["One", "Two"], "expect": {}},
    ],
    "variants": {"cut": {"faults": "own.json"}, "err": {"settings": {"error_prob": 0.5}}},
    "hypothesis": ["no crash"],
}
LATENCY = {"toxics": [{"toxic": "latency", "links": "tools", "when": {"probability": 0.5}}]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own.json").write_text(json.dumps(LATENCY), encoding="utf-8")
    (tmp_path / "user.py").write_text("def more(conversation): return None", encoding="utf-8")
    return tmp_path


def planned(folder: Path, changes: dict[str, Any] | None = None, **environ: str) -> ExperimentPlan:
    path = folder / "exp.json"
    path.write_text(json.dumps(TWO), encoding="utf-8")
    return plan_experiment(load_experiment(path, changes), {"LOGS_DIR": str(folder), **environ})


def test_arm_has_only_its_own_faults(folder: Path) -> None:
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


def test_control_has_other_arms_as_shadows(folder: Path) -> None:
    control, cut, err, after = planned(folder).arms
    shadows = shadow_arms(control.settings)
    assert (shadows["cut"].faults, shadows["err"].error_prob) == (cut.settings.faults, 0.5)
    assert {arm.settings.shadow for arm in (cut, err, after)} == {""}


@pytest.mark.parametrize("episode", ["a", "b", "c"])
def test_shadow_toxics_equal_those_of_arm(folder: Path, episode: str) -> None:
    control, cut, *_ = planned(folder, {"seed": 1}).arms
    toxics = read_canonical(cut.settings.faults).on(lab_links()).toxics
    drawn = plan_attempt(cut.settings, lab_links().tool_names, episode, 1, toxics, 0)
    shadows = shadow_toxics(control.settings, lab_links(), episode, 1)
    assert drawn and shadows == [ShadowToxic("cut", toxic) for toxic in drawn]


def test_episode_outside_radius_has_no_shadow(folder: Path) -> None:
    often = {"faults": {"toxics": [{"toxic": "latency", "links": "tools"}]}}
    radius = {"safety": {"blast_radius": {"episodes": 0.25}}, "repeats": 2, "seed": 1}
    plan = planned(folder, {"variants": {"late": often}, **radius})
    late = plan.arms[1].settings
    shadowed = [
        bool(shadow_toxics(plan.arms[0].settings, lab_links(), prompt.key, 1)) for prompt in plan.prompts
    ]
    assert shadowed == [not is_outside_radius(late, prompt.key) for prompt in plan.prompts]
    assert shadowed.count(True) == 1


def test_prompts_come_from_wiring(folder: Path) -> None:
    (folder / "own.txt").write_text('[{"prompt": "Mine"}]', encoding="utf-8")
    (folder / "lab.yaml").write_text(
        "title: x\nmethod: {faults: heavy}\nhypothesis: [no crash]", encoding="utf-8"
    )
    environ = {"LOGS_DIR": str(folder), "PROMPTS_FILE": str(folder / "own.txt")}
    plan = plan_experiment(load_experiment(folder / "lab.yaml"), environ)
    assert len(plan.prompts) == len(load_prompts(sample_prompts()).entries)


def test_drawn_seed_is_shared_by_arms(folder: Path) -> None:
    plan = planned(folder)
    assert {arm.settings.seed for arm in plan.arms} == {plan.seed}
    assert planned(folder, {"seed": 9}).seed == 9


def test_repeated_prompt_has_own_draws(folder: Path) -> None:
    plan = planned(folder, {"repeats": 20, "seed": 1})
    keys = [prompt.key for prompt in plan.prompts]
    assert len(set(keys)) == 40 and keys[0] == "hello" and keys[2] == "hello.r2"
    drawn = plan.toxics_drawn(plan.arms[1])
    assert all(name.startswith("latency on ") and 0 < count < 40 for name, count in drawn.items())
    assert plan.toxics_drawn(plan.arms[0]) == {}


def test_saved_prompts_are_same_prompts(folder: Path) -> None:
    plan = planned(folder, {"repeats": 2})
    saved = folder / "prompts.json"
    saved.write_text(dump_prompts(plan.prompts), encoding="utf-8")
    same = [replace(prompt, place=0) for prompt in load_prompts(saved).entries]
    assert same == [replace(prompt, place=0) for prompt in plan.prompts]


def test_settings_apply_to_all_arms(folder: Path) -> None:
    plan = planned(folder, {"settings": {"model_timeout": "7"}})
    assert {arm.settings.model_timeout for arm in plan.arms} == {7.0}


def test_arm_with_wiring_has_no_persona(folder: Path) -> None:
    links = {"model": {"upstream": "scripted", "dialect": "openai_chat"}}
    wiring = {"links": links, "subject": {"command": ["true"]}}
    (folder / "wiring.json").write_text(json.dumps(wiring), encoding="utf-8")
    hang = {"faults": {"faults": [{"fault": "hang"}]}}
    own = {"wiring": "wiring.json", "subject": "", "prompts": [{"prompt": "x"}], "variants": {"hang": hang}}
    stubborn = {"settings": {"persona": "stubborn"}}
    assert {arm.settings.persona for arm in planned(folder, {**own, **stubborn}).arms} == {"stubborn"}
    with pytest.raises(InputError, match=r"variants.hang.settings.persona: one scripted model answers in"):
        planned(folder, {**own, "variants": {"hang": {**hang, **stubborn}}})


def test_conversation_needs_capable_subject_at_plan(folder: Path) -> None:
    wiring = {"links": {"a": {"upstream": "http://127.0.0.1:9"}}, "subject": {"command": ["true"]}}
    (folder / "wiring.json").write_text(json.dumps(wiring), encoding="utf-8")
    with pytest.raises(PromptsError, match="entry 1 has a next_turn, and this subject takes one prompt"):
        planned(folder, {"subject": "", "wiring": "wiring.json"})
    with pytest.raises(PromptsError, match="user:nowhere cannot be loaded: ModuleNotFoundError"):
        planned(folder, {"prompts": [{"prompt": "x", "id": "x", "next_turn": "user:nowhere"}]})


@pytest.mark.parametrize(
    "possible",
    ["success == all", "failures == 0", "success >= 2", "misled >= 1", "p95 <= 5s", "not success >= 3"],
)
def test_reachable_count_has_no_warning(folder: Path, possible: str) -> None:
    assert list(count_lines(planned(folder, {"only": ["2"], "repeats": 2, "hypothesis": [possible]}))) == []


def test_plan_names_claims_that_its_episodes_cannot_decide(folder: Path) -> None:
    few = {"only": ["2"], "repeats": 4, "hypothesis": ["success_rate >= 0.9 and no crash"]}
    [line] = undecidable_lines(planned(folder, few))
    assert line.startswith("success_rate >= 0.9 needs at least 29 episodes, this plan has 4: use repeats: 29")
    assert undecidable_lines(planned(folder, {**few, "repeats": 29})) == []
    assert undecidable_lines(planned(folder, {**few, "until_decided": True})) == []


def test_unreachable_count_is_named_before_run(folder: Path) -> None:
    line, *_ = count_lines(planned(folder, {"only": ["2"], "repeats": 2, "hypothesis": ["success >= 19"]}))
    assert "success >= 19: cannot hold, since the arm has 2 episodes; use more repeats" in line


def test_statement_names_prompts_without_oracle(folder: Path) -> None:
    [line] = oracle_lines(planned(folder, {"repeats": 2, "hypothesis": ["success_rate >= 0.5"]}))
    assert line.startswith("missing oracle: hello; 1 prompt without `expect` leaves open")
    assert "cut: success_rate >= 0.5" in line and "control: success_share >= 50 %" in line
    needless = {"hypothesis": ["p95 <= 5s"], "steady_state": ["p95 <= 5s"]}
    assert list(oracle_lines(planned(folder, needless))) == []
    assert list(oracle_lines(planned(folder, {"only": ["2"]}))) == []


@pytest.mark.parametrize("key", ["hypothesis", "checks"])
def test_default_steady_state_needs_success_only_where_an_oracle_judges_it(folder: Path, key: str) -> None:
    """Files mostly have a hypothesis and experiments in Python checks: both have the same default."""
    written = {name: value for name, value in TWO.items() if name != "hypothesis"} | {key: ["no crash"]}
    (folder / "exp.json").write_text(json.dumps(written), encoding="utf-8")
    for only, steady in (("2", ["success_share >= 50 %"]), ("hello", ["crash == 0", "runaway == 0"])):
        experiment = load_experiment(folder / "exp.json", {"only": [only]})
        plan = plan_experiment(experiment, {"LOGS_DIR": str(folder)})
        for arm in plan.arms:
            assert list(arm.hypothesis) == (steady if arm.is_control else ["no crash"])
        assert plan.experiment.steady_state == steady


def test_plan_names_agent_as_lab_or_user_agent(folder: Path) -> None:
    assert agent_line(lab_wiring()).startswith("agent: the lab's own, not yours")
    assert next(head_lines(planned(folder))) == "agent: my_agent:open_subject (--subject)"
    (folder / "w.yaml").write_text(
        "links: {shop: {upstream: 'http://127.0.0.1:9'}}\nsubject: {command: [python, my.py, '{prompt}']}\n",
        "utf-8",
    )
    line = agent_line(load_wiring(folder / "w.yaml"))
    assert line.startswith("agent: yours, python my.py '{prompt}'") and "w.yaml" in line
