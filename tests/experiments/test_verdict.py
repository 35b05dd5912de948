"""From measures to the verdict: every reason for unknown comes before held and deviated."""

from __future__ import annotations

import pytest

from wirefault.experiments.expression import Bounds, exactly
from wirefault.experiments.measures import Measure
from wirefault.experiments.verdict import ArmResult, judge_experiment

FINE = {"success_rate": Bounds(1, 1), "duplicate": exactly(0), "faults_delivered": exactly(0)}
STRUCK = {"success_rate": Bounds(0.9, 0.9), "duplicate": exactly(0), "faults_delivered": exactly(4)}


def arm(name: str, bounds: dict[str, Bounds], *hypothesis: str, failure: str = "") -> ArmResult:
    measures = {key: Measure(value, "shown", ("e1",)) for key, value in bounds.items()}
    measures["p95"] = Measure(None, "no data")
    return ArmResult(name, (f"run-{name}",), hypothesis or ("success_rate >= 1",), measures, failure)


CONTROL, AFTER = arm("control", FINE), arm("control-after", FINE)


@pytest.mark.parametrize(
    ("statement", "measured", "verdict"),
    [
        ("success_rate >= 0.9", {}, "held"),
        ("success_rate >= 0.95", {}, "deviated"),
        ("success_rate >= 0.95", {"success_rate": Bounds(0.9, 1)}, "unknown"),
        ("no duplicate", {"duplicate": Bounds(0, 1)}, "unknown"),
        ("no duplicate", {"duplicate": Bounds(1, 2)}, "deviated"),
        ("degradation <= 0.1", {"success_rate": Bounds(0.95, 0.95)}, "held"),
        ("degradation <= 0.1", {"success_rate": Bounds(0.8, 0.8)}, "deviated"),
        ("success_rate >= control_success_rate", {}, "deviated"),
        ("p95 <= 5s", {}, "unknown"),
        ("no duplicate", {"faults_delivered": exactly(0)}, "unknown"),
        ("no duplicate", {"faults_delivered": Bounds(0, 3)}, "unknown"),
    ],
)
def test_statement_decides(statement: str, measured: dict[str, Bounds], verdict: str) -> None:
    judged = judge_experiment([CONTROL, arm("method", {**STRUCK, **measured}, statement), AFTER])
    assert judged.verdict == verdict


def test_missing_steady_state_has_no_verdict() -> None:
    ill = arm("control", {**FINE, "success_rate": Bounds(0.5, 0.5)})
    judged = judge_experiment([ill, arm("method", STRUCK, "no duplicate"), AFTER])
    assert judged.verdict == "unknown" and "not in its steady state before any fault" in judged.because


def test_no_return_to_steady_state_is_deviated() -> None:
    ill = arm("control-after", {**FINE, "success_rate": Bounds(0.5, 0.5)})
    judged = judge_experiment([CONTROL, arm("method", STRUCK, "no duplicate"), ill])
    assert judged.verdict == "deviated" and judged.because.startswith("afterwards, without faults")


def test_deviated_precedes_unknown() -> None:
    arms = [arm("a", STRUCK, "p95 <= 5s"), arm("b", STRUCK, "success_rate >= 0.95")]
    judged = judge_experiment([CONTROL, *arms, AFTER])
    assert (judged.verdict, judged.because[:2]) == ("deviated", "b:")
    assert [check.episodes for check in judged.checks if check.verdict == "deviated"] == [("e1",)]


def test_failed_arm_is_unknown() -> None:
    judged = judge_experiment([CONTROL, arm("method", {}, failure="its run ended early"), AFTER])
    assert judged.verdict == "unknown" and "its run ended early" in judged.because
