"""Doses of an experiment's faults, and how far its hypothesis holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest

from wirefault.experiments.experiment_file import load_experiment
from wirefault.experiments.plan import ExperimentPlan, levels_of, stressed
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.surface import level_answers
from wirefault.experiments.verdict import NO_FAULT_REACHED, Check, ExperimentVerdict, Judged
from wirefault.faults.sets.presets import read_canonical

SET = {
    "faults": [
        {"fault": "reset", "links": "tools", "when": {"probability": 0.4}},
        {"fault": "hang", "links": "tools", "when": {"probability": 0.2}},
    ],
    "toxics": [{"toxic": "latency", "links": "tools", "when": {"probability": 0.6}}],
}


@pytest.fixture
def plan(tmp_path: Path) -> ExperimentPlan:
    data = {
        "title": "x",
        "seed": 1,
        "method": {"faults": SET, "settings": {"error_prob": 0.3}},
        "hypothesis": ["no crash"],
    }
    (tmp_path / "exp.json").write_text(json.dumps(data), encoding="utf-8")
    return plan_experiment(load_experiment(tmp_path / "exp.json"), {"LOGS_DIR": str(tmp_path)})


def test_probabilities_are_scaled_and_capped_ones_named(plan: ExperimentPlan) -> None:
    half, twice, most = levels_of(plan, [0.5, 2, 4])
    sets = [read_canonical(level.settings.faults) for level in (half, twice, most)]
    assert [[entry.when.probability for entry in faults.faults] for faults in sets] == [
        [0.2, 0.1],
        [0.8, 0.4],
        [1.0, 0.8],
    ]
    assert [faults.toxics[0].probability for faults in sets] == [0.3, 1.0, 1.0]
    assert [level.settings.error_prob for level in (half, twice, most)] == [0.15, 0.6, 1.0]
    assert (half.capped, twice.capped) == ((), ("latency",))
    assert most.capped == ("reset", "latency", "error_prob")


def test_levels_run_between_controls(plan: ExperimentPlan) -> None:
    arms = stressed(plan, levels_of(plan, [0.5, 2])).arms
    assert [arm.name for arm in arms] == ["control", "method-x0.5", "method-x2", "control-after"]


@pytest.mark.parametrize(
    ("verdicts", "last_held", "first_deviated", "between"),
    [
        (("held", "held", "held"), 2.0, None, {}),
        (("held", "deviated", "held"), 0.5, 1.0, {}),
        (("held", "unknown", "deviated"), 0.5, 2.0, {1.0: "unknown"}),
        (("held", "held", "unknown"), 1.0, None, {2.0: "unknown"}),
        (("unknown", "held", "deviated"), None, 2.0, {0.5: "unknown", 1.0: "held"}),
        (("none", "held", "deviated"), 1.0, 2.0, {}),
        (("held", "none", "deviated"), 0.5, 2.0, {1.0: "no fault arrived"}),
        (("deviated", "held", "held"), None, 0.5, {}),
        (("unknown", "unknown", "unknown"), None, None, dict.fromkeys((0.5, 1.0, 2.0), "unknown")),
    ],
)
def test_answer_is_last_level_held_and_first_deviated(
    plan: ExperimentPlan,
    verdicts: tuple[str, ...],
    last_held: float | None,
    first_deviated: float | None,
    between: dict[float, str],
) -> None:
    """``none``: no fault arrived."""
    levels = levels_of(plan, [0.5, 1, 2])
    checks = [
        Check(arm.name, "no crash", "unknown", message=NO_FAULT_REACHED)
        if verdict == "none"
        else Check(arm.name, "no crash", cast(ExperimentVerdict, verdict))
        for arm, verdict in zip(levels, verdicts, strict=True)
    ]
    [answer] = level_answers(stressed(plan, levels), Judged("held", "", checks))
    assert (answer.arm, answer.last_held, answer.first_deviated) == ("method", last_held, first_deviated)
    assert answer.between == between
