"""Doses of an experiment's faults, and how far its hypothesis holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wirefault.experiments.experiment_file import load_experiment
from wirefault.experiments.plan import ExperimentPlan, holds_up_to, levels_of, plan_experiment, stressed
from wirefault.experiments.verdict import Check, ExperimentVerdict, Judged
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
    sets = [read_canonical(level.planned.settings.faults) for level in (half, twice, most)]
    assert [[entry.when.probability for entry in faults.faults] for faults in sets] == [
        [0.2, 0.1],
        [0.8, 0.4],
        [1.0, 0.8],
    ]
    assert [faults.toxics[0].probability for faults in sets] == [0.3, 1.0, 1.0]
    assert [level.planned.settings.error_prob for level in (half, twice, most)] == [0.15, 0.6, 1.0]
    assert (half.planned.capped, twice.planned.capped) == ((), ("latency",))
    assert most.planned.capped == ("reset", "latency", "error_prob")


def test_levels_run_between_controls(plan: ExperimentPlan) -> None:
    arms = stressed(plan, levels_of(plan, [0.5, 2])).arms
    assert [arm.name for arm in arms] == ["control", "method-x0.5", "method-x2", "control-after"]


@pytest.mark.parametrize(
    ("verdicts", "highest"),
    [
        (("held", "held", "held"), 2.0),
        (("held", "deviated", "held"), 0.5),
        (("unknown", "held", "deviated"), 1.0),
        (("held", "held", "unknown"), 1.0),
        (("deviated", "held", "held"), None),
        (("unknown", "unknown", "unknown"), None),
    ],
)
def test_highest_level_without_earlier_deviation_holds(
    plan: ExperimentPlan, verdicts: tuple[ExperimentVerdict, ...], highest: float | None
) -> None:
    levels = levels_of(plan, [0.5, 1, 2])
    checks = [
        Check(level.planned.name, "no crash", verdict)
        for level, verdict in zip(levels, verdicts, strict=True)
    ]
    assert holds_up_to(levels, Judged("held", "", checks)) == highest
