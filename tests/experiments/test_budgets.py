"""Budgets in an experiment: inline, for all arms or one, and judged by their effects."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.judging.oracle.histories import episode
from tests.judging.test_summary import GOOD, run
from tests.pages import page_section
from wirefault.core.errors import InputError
from wirefault.experiments.arms import facts_of_one
from wirefault.experiments.experiment import Arm, Experiment
from wirefault.experiments.experiment_file import load_experiment
from wirefault.experiments.expression import Bounds, exactly
from wirefault.experiments.facts_store import facts_of
from wirefault.experiments.figures import measures_of
from wirefault.experiments.measure import Measure
from wirefault.experiments.plan import ExperimentPlan
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.verdict import ArmResult, judge_experiment
from wirefault.history.events import BudgetSpent, BudgetUnknown
from wirefault.settings.budgets import Budgets, EpisodeBudget, load_budgets

CALLS = {"episode": {"calls": 3}}
SPENT = BudgetSpent(1.0, "001", 1, "episode.calls", 3, 3)
ENDED = BudgetSpent(1.0, "001", 1, "episode.memory", 3, 3, True)
UNKNOWN = BudgetUnknown(1.0, "001", 1, "episode.tokens", "no_usage")


def planned(folder: Path, environ: dict[str, str] | None = None, **changes: Any) -> ExperimentPlan:
    path = folder / "exp.json"
    path.write_text(json.dumps({"title": "x", "hypothesis": ["no crash"], **changes}), encoding="utf-8")
    return plan_experiment(load_experiment(path), {"LOGS_DIR": str(folder), **(environ or {})})


def calls_of(plan: ExperimentPlan) -> dict[str, int | None]:
    """Of each arm, how many calls its episodes may make."""
    budgets = {arm.name: load_budgets(arm.settings.budgets) for arm in plan.arms}
    return {name: budget.episode.calls if budget else None for name, budget in budgets.items()}


def test_page_example_can_be_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    [example] = re.findall(r"```yaml\n(.*?)```", page_section("experiments.md", "Budgets"), re.DOTALL)
    (tmp_path / "prices.yaml").write_text("scripted-diligent: {input: 1, output: 1}\n")
    (tmp_path / "exp.yaml").write_text(example)
    plan = plan_experiment(load_experiment(tmp_path / "exp.yaml"), {"LOGS_DIR": str(tmp_path)})
    assert calls_of(plan) == {"control": None, "method": 100, "control-after": None}


@pytest.mark.parametrize("as_file", [True, False])
def test_arm_budgets_override_common_ones(tmp_path: Path, as_file: bool) -> None:
    (tmp_path / "own.yaml").write_text(json.dumps(CALLS))
    own = {"budgets": "own.yaml" if as_file else CALLS}
    variants = {"own": own, "all": {"faults": "light"}}
    plan = planned(tmp_path, budgets={"episode": {"calls": 9}}, variants=variants)
    assert calls_of(plan) == {"control": 9, "own": 3, "all": 9, "control-after": 9}


def test_only_named_budgets_limit(tmp_path: Path) -> None:
    plan = planned(tmp_path, {"BUDGETS": json.dumps(CALLS)}, method={"faults": "light"})
    assert set(calls_of(plan).values()) == {None}


def test_python_budgets_equal_yaml() -> None:
    arm = Arm(budgets=Budgets(episode=EpisodeBudget(calls=3)))
    assert arm.breaks_something and not Arm().breaks_something
    assert Experiment(title="x", method=arm, hypothesis=["no budgets_spent"]).method == arm


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"method": {"budgets": {"episode": {"token": 1}}}},
            "method.budgets: episode.token: no such key; did you mean 'tokens'?",
        ),
        ({"method": {"settings": {"budgets": "x"}}}, "budgets has a separate key"),
        ({"method": {"faults": "light"}, "baseline": {"budgets": CALLS}}, "baseline.budgets"),
        ({"budgets": CALLS, "method": {}}, "missing faults"),
        ({"method": {"budgets": {"episode": {"cost": 1.0}}}}, "a budget of cost needs PRICES"),
        ({"method": {"budgets": "there-is-none.yaml"}}, "there-is-none.yaml: cannot be read"),
    ],
    ids=["key", "setting", "baseline", "no fault", "no prices", "no file"],
)
def test_invalid_budget_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        planned(tmp_path, **changes)
    assert message in str(error.value) and "exp.json" in str(error.value)


@pytest.mark.parametrize(
    ("events", "spent", "strikes"),
    [
        ([], exactly(0), exactly(0)),
        ([SPENT], exactly(1), exactly(0)),
        ([ENDED], exactly(1), exactly(1)),
        ([SPENT, UNKNOWN], Bounds(1, float("inf")), exactly(0)),
    ],
    ids=["none", "spent", "ended", "unknown"],
)
def test_budgets_are_measured(events: list[Any], spent: Bounds, strikes: Bounds) -> None:
    history = run(GOOD, episode())
    measured = measures_of(facts_of_one(facts_of("a", [*history, *events])))
    assert (measured["budgets_spent"].bounds, measured["budget_strikes"].bounds) == (spent, strikes)


def arm(name: str, strikes: int, hypothesis: str, spent: Bounds | None = None) -> ArmResult:
    bounds = {
        "success_rate": exactly(1),
        "success_share": exactly(1),
        "faults_delivered": exactly(0),
        "budget_strikes": exactly(strikes),
        "budgets_spent": spent or exactly(strikes),
    }
    return ArmResult(name, (name,), (hypothesis,), {key: Measure(value) for key, value in bounds.items()})


@pytest.mark.parametrize(
    ("in_control", "in_method", "spent", "verdict"),
    [
        (0, 2, None, "held"),
        (0, 0, None, "unknown"),  # nothing was broken
        (1, 2, None, "unknown"),  # calls inside the subject are unknown as well
    ],
)
def test_budget_strike_counts_as_fault(
    in_control: int, in_method: int, spent: Bounds | None, verdict: str
) -> None:
    calm = "success_share >= 50 %"
    arms = [
        arm("control", in_control, calm),
        arm("method", in_method, calm, spent),
        arm("control-after", 0, calm),
    ]
    assert judge_experiment(arms).verdict == verdict


@pytest.mark.parametrize(("spent", "verdict"), [(exactly(1), "deviated"), (Bounds(0, 9), "unknown")])
def test_uncountable_budget_is_not_held(spent: Bounds, verdict: str) -> None:
    calm = "success_share >= 50 %"
    arms = [
        arm("control", 0, calm),
        arm("method", 1, "no budgets_spent", spent),
        arm("control-after", 0, calm),
    ]
    assert judge_experiment(arms).verdict == verdict
