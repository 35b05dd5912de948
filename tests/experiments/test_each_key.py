"""Every key of an experiment changes the plan once, and an error about it names it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from wirefault.core.errors import InputError
from wirefault.core.identity import new_run_id
from wirefault.experiments.experiment import Experiment
from wirefault.experiments.experiment_file import load_experiments
from wirefault.experiments.plan import ExperimentPlan
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.run_experiment import ExperimentResult
from wirefault.experiments.saved import save
from wirefault.faults.sets.presets import read_canonical
from wirefault.settings.budgets import Budgets, load_budgets

STRUCK = {"faults": [{"fault": "rate_limit", "links": ["weather"], "when": {"probability": 0.5}}]}
BASE: dict[str, Any] = {
    "title": "x",
    "seed": 1,
    "prompts": [{"prompt": "One", "id": "one"}, {"prompt": "Two", "id": "two"}],
    "method": {"faults": STRUCK},
    "hypothesis": ["no crash"],
}
WIRING = {
    "links": {"shop": {"upstream": "http://127.0.0.1:9000", "env": "SHOP_URL"}},
    "subject": {"command": ["true", "{prompt}"]},
}
# without the method, whose replacement this is
VARIANTS = {"method": None, "variants": {"a": {"faults": "lost-replies"}}}


def matrix(**dimensions: Any) -> dict[str, Any]:
    return {"method": None, "matrix": {"faults": ["light"], **dimensions}}


def method(**more: Any) -> dict[str, Any]:
    return {"method": {"faults": STRUCK, **more}}


Sees = Callable[[list[ExperimentPlan]], object]


def settings_of_plans(plans: list[ExperimentPlan]) -> Mapping[str, Any]:
    """The settings in the verdict of the first plan."""
    return ExperimentResult(save(plans[0], new_run_id())).as_json()


def of_arm(see: Callable[[Any], object]) -> Sees:
    """A view of the first plan's arm with faults."""
    return lambda plans: see(plans[0].arms[1])


@dataclass(frozen=True)
class Case:
    """``changes`` make ``key`` be seen as ``seen``; the message for ``wrong`` ones contains ``expected``."""

    key: str
    changes: dict[str, Any]
    sees: Sees
    seen: object
    wrong: dict[str, Any]
    expected: str


def chance(plans: list[ExperimentPlan]) -> object:
    return read_canonical(plans[0].arms[1].settings.faults).faults[0].when.probability


def error_prob(plans: list[ExperimentPlan]) -> object:
    return plans[0].arms[1].settings.error_prob


def keys(plans: list[ExperimentPlan]) -> object:
    return [prompt.key for prompt in plans[0].prompts]


def names(plans: list[ExperimentPlan]) -> object:
    return [arm.name for arm in plans[0].arms[1:-1]]


def safety(**more: Any) -> dict[str, Any]:
    return {"safety": more}


def radius(**more: Any) -> dict[str, Any]:
    return safety(blast_radius=more)


CASES = [
    Case("title", {"title": "y"}, lambda p: settings_of_plans(p)["title"], "y", {"title": ""}, "title"),
    Case(
        "description",
        {"description": "why"},
        lambda p: settings_of_plans(p)["description"],
        "why",
        {"description": 3},
        "description",
    ),
    Case("tags", {"tags": ["t"]}, lambda p: settings_of_plans(p)["tags"], ["t"], {"tags": "t"}, "tags"),
    Case(
        "wiring",
        {"wiring": "w.json", "method": {"settings": {"error_prob": 1}}},
        lambda p: p[0].configuration.wiring.links.names,
        ("shop",),
        {"wiring": "no.yaml"},
        "no.yaml",
    ),
    Case("subject", {"subject": "a:b"}, lambda p: p[0].subject, "a:b", {"subject": 1}, "subject"),
    Case(
        "prompts",
        {"prompts": "p.json"},
        keys,
        ["three"],
        {"prompts": "no.json"},
        "prompts: missing file",
    ),
    Case("only", {"only": ["two"]}, keys, ["two"], {"only": ["three"]}, "unknown id"),
    Case(
        "replies",
        {"replies": True},
        lambda p: p[0].experiment.replies,
        True,
        {"replies": "some"},
        "replies",
    ),
    Case("repeats", {"repeats": 2}, keys, ["one", "two", "one.r2", "two.r2"], {"repeats": 0}, "repeats"),
    Case(
        "perturb",
        {"perturb": ["padding"]},
        lambda p: [arm.name for arm in p[0].arms],
        ["control", "control.padding", "method", "method.padding", "control-after"],
        {"perturb": ["order"]},
        "order: it changes none of these prompts",
    ),
    Case(
        "until_decided",
        {"until_decided": True, "hypothesis": ["success_rate >= 0.5"]},
        lambda p: p[0].sequential is not None and len(p[0].prompts),
        1000,
        {"until_decided": True},
        "until_decided: nothing to decide",
    ),
    Case(
        "limits.episodes",
        {"until_decided": True, "hypothesis": ["success_rate >= 0.5"], "limits": {"episodes": 7}},
        lambda p: len(p[0].prompts),
        6,
        {"until_decided": True, "hypothesis": ["success_rate >= 0.5"], "limits": {"episodes": 1}},
        "limits.episodes: must be at least 2",
    ),
    Case(
        "safety.blast_radius.links",
        radius(links=["weather"]),
        lambda p: p[0].experiment.safety.blast_radius is not None,
        True,
        radius(links=["search"]),
        "affects weather, outside of safety.blast_radius.links",
    ),
    Case(
        "safety.blast_radius.episodes",
        radius(episodes=0.5),
        of_arm(lambda arm: arm.settings.fault_episodes < 1),
        True,
        radius(episodes=0.1),
        "0.1 of 2 episodes is less than one",
    ),
    Case(
        "safety.blast_radius.calls",
        radius(calls=3),
        of_arm(lambda arm: arm.settings.fault_calls),
        3,
        radius(calls=0),
        "calls",
    ),
    Case(
        "safety.abort",
        safety(abort=["time > 1"]),
        lambda p: p[0].experiment.safety.abort,
        ["time > 1"],
        safety(abort=["tim > 1"]),
        "tim is not watched; did you mean 'time'?",
    ),
    Case(
        "safety.targets",
        {"wiring": "far.json", "method": {"settings": {"error_prob": 1}}} | safety(targets=["far.example"]),
        lambda p: p[0].configuration.wiring.links.names,
        ("maps",),
        {"wiring": "far.json", "method": {"settings": {"error_prob": 1}}} | safety(targets=[]),
        "the link maps leads to far.example",
    ),
    Case(
        "limits.time",
        {"limits": {"time": "2min"}},
        lambda p: p[0].experiment.limits.time,
        120,
        {"limits": {"time": 0}},
        "limits.time",
    ),
    Case(
        "limits.cost",
        {"limits": {"cost": 2}},
        lambda p: p[0].experiment.limits.cost,
        2,
        {"limits": {"cost": -1}},
        "limits.cost",
    ),
    Case("seed", {"seed": 2}, lambda p: p[0].seed, 2, {"seed": -1}, "seed"),
    Case(
        "settings",
        {"settings": {"persona": "quitter"}},
        lambda p: {a.settings.persona for a in p[0].arms},
        {"quitter"},
        {"settings": {"persna": "quitter"}},
        "did you mean 'persona'?",
    ),
    Case(
        "budgets",
        {"budgets": {"episode": {"calls": 3}}},
        lambda p: [bool(load_budgets(arm.settings.budgets)) for arm in p[0].arms],
        [True] * 3,
        {"budgets": "no.yaml"},
        "no.yaml: cannot be read",
    ),
    Case(
        "steady_state",
        {"steady_state": ["no crash"]},
        lambda p: p[0].arms[0].hypothesis,
        ("no crash",),
        {"steady_state": []},
        "steady_state",
    ),
    Case(
        "confidence",
        {"confidence": "95 %"},
        lambda p: p[0].terms.confidence,
        0.95,
        {"confidence": "40 %"},
        "confidence",
    ),
    Case(
        "population",
        {"population": "like_these"},
        lambda p: p[0].terms.population,
        "like_these",
        {"population": "all"},
        "population",
    ),
    Case(
        "baseline.settings",
        {"baseline": {"settings": {"persona": "quitter"}}},
        lambda p: [arm.settings.persona for arm in p[0].arms],
        ["quitter", "diligent", "quitter"],
        {"baseline": {"settings": {"error_prob": 1}}},
        "which must have no faults",
    ),
    Case(
        "method.faults",
        {"method": {"faults": "lost-replies"}},
        of_arm(lambda arm: "rate_limit" in arm.settings.faults),
        False,
        {"method": {"faults": "lost-reply"}},
        "unknown fault set 'lost-reply'",
    ),
    Case(
        "method.settings",
        {"method": {"settings": {"error_prob": 0.5}}},
        error_prob,
        0.5,
        {"method": {"settings": {"error_prob": 2}}},
        "method.settings.error_prob: 2: ",
    ),
    Case(
        "method.budgets",
        method(budgets={"episode": {"calls": 3}}),
        lambda p: [bool(load_budgets(arm.settings.budgets)) for arm in p[0].arms],
        [False, True, False],
        method(budgets={"episode": {"call": 3}}),
        "did you mean 'calls'?",
    ),
    Case(
        "method.dose",
        method(dose=2),
        chance,
        1.0,
        method(dose=0),
        "dose",
    ),
    Case(
        "method.hypothesis",
        method(hypothesis=["no findings"]),
        of_arm(lambda arm: arm.hypothesis),
        ("no crash", "no findings"),
        method(hypothesis=["no finding"]),
        "did you mean 'findings'?",
    ),
    Case(
        "method.checks",
        method(checks=["no crash", "no_loop"]),
        of_arm(lambda arm: (arm.hypothesis[-1], arm.assertions)),
        ("no crash", ("no_loop",)),
        method(checks=["no_lop"]),
        "unknown assertion no_lop",
    ),
    Case(
        "method.assertions",
        method(assertions=["no_loop"]),
        of_arm(lambda arm: arm.assertions),
        ("no_loop",),
        method(assertions=["no_lop"]),
        "unknown assertion no_lop",
    ),
    Case(
        "faults",
        {"method": None, "faults": ["lost-replies", {"fault": "hang", "links": "weather"}]},
        of_arm(lambda arm: [entry.fault.name for entry in read_canonical(arm.settings.faults).faults][-1]),
        "hang",
        {"method": None, "faults": ["lost-reply"]},
        "lost-replies",
    ),
    Case(
        "checks",
        {"hypothesis": [], "checks": ["no crash", "completes"]},
        of_arm(lambda arm: (arm.hypothesis, arm.assertions)),
        (("no crash",), ("completes",)),
        {"checks": ["no crsh"]},
        "did you mean 'crash'",
    ),
    Case("variants", VARIANTS, names, ["a"], {"method": None, "variants": {"a": {}}}, "a: missing faults"),
    Case(
        "hypothesis",
        {"hypothesis": ["no crash", "no runaway"]},
        of_arm(lambda arm: arm.hypothesis),
        ("no crash", "no runaway"),
        {"hypothesis": []},
        "missing hypothesis",
    ),
    Case(
        "assertions",
        {"assertions": ["completes"]},
        of_arm(lambda arm: arm.assertions),
        ("completes",),
        {"assertions": ["complete"]},
        "unknown assertion complete",
    ),
    Case(
        "matrix.faults",
        {"method": None, "matrix": {"faults": ["light", "heavy"]}},
        names,
        ["light", "heavy"],
        {"method": None, "matrix": {"faults": []}},
        "needs one of",
    ),
    Case(
        "matrix.doses",
        {"matrix": {"doses": [0.5, 1]}},
        names,
        ["method-x0.5", "method-x1"],
        {"matrix": {"doses": [0]}},
        "matrix.doses",
    ),
    Case(
        "matrix.settings",
        matrix(settings={"persona": ["diligent", "quitter"]}),
        lambda p: [plan.arms[0].settings.persona for plan in p],
        ["diligent", "quitter"],
        matrix(settings={"persona": []}),
        "settings.persona has no value",
    ),
    Case(
        "matrix.subjects",
        matrix(subjects=["a:b", "lab"]),
        lambda p: [plan.subject for plan in p],
        ["a:b", "lab"],
        matrix(subjects="lab"),
        "matrix.subjects",
    ),
    Case(
        "arms",
        {"arms": {"a": {}, "b": {}}},
        lambda p: [plan.experiment.title for plan in p],
        ["x [a]", "x [b]"],
        {"arms": {"a": {}}},
        "arms: has 1",
    ),
    Case(
        "matrix.prompts",
        matrix(prompts=["p.json"]),
        keys,
        ["three"],
        matrix(prompts=["no.json"]),
        "prompts: missing file",
    ),
]


def plans(folder: Path, changes: Mapping[str, Any]) -> list[ExperimentPlan]:
    far = {"upstream": "https://far.example", "env": "MAPS_URL"}
    files = {
        "w.json": WIRING,
        "far.json": {**WIRING, "links": {"maps": far}, "allow": ["far.example"]},
        "p.json": [{"prompt": "Three", "id": "three"}],
        "exp.json": {key: value for key, value in {**BASE, **changes}.items() if value is not None},
    }
    for name, data in files.items():
        (folder / name).write_text(json.dumps(data), encoding="utf-8")
    return [
        plan_experiment(each, {"LOGS_DIR": str(folder)}) for each in load_experiments(folder / "exp.json")
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.key)
def test_key_changes_plan(tmp_path: Path, case: Case) -> None:
    base = plans(tmp_path, {})
    assert case.sees(plans(tmp_path, case.changes)) == case.seen != case.sees(base)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.key)
def test_invalid_value_is_named(tmp_path: Path, case: Case) -> None:
    with pytest.raises(InputError) as error:
        plans(tmp_path, case.wrong)
    assert case.expected in str(error.value) and "\n" not in str(error.value)


def keys_of(kind: type[BaseModel], before: str = "") -> Iterator[str]:
    """The keys of a part of an experiment with their places; budgets have their own tests."""
    for name, field in kind.model_fields.items():
        key = field.alias or name
        parts = [part for part in (field.annotation, *get_args(field.annotation)) if isinstance(part, type)]
        inner = [part for part in parts if issubclass(part, BaseModel) and part is not Budgets]
        if inner and name not in ("variants", "arms"):
            for part in inner:
                yield from keys_of(part, f"{before}{key}.")
        else:
            yield f"{before}{key}"


def test_each_key_is_tested() -> None:
    assert {case.key for case in CASES} == set(keys_of(Experiment))
