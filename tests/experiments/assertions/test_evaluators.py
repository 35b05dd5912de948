"""Evaluators of other packages as checks: objects with the same methods, without the packages."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from tests.experiments.assertions.views import view
from tests.judging.oracle.histories import ended
from tests.support import ROOT, required
from wirefault.experiments.assertions.evaluators import as_check
from wirefault.experiments.assertions.on_arm import check_episode
from wirefault.experiments.assertions.registry import parse_assertion
from wirefault.experiments.episode_view import EpisodeView
from wirefault.judging.checker import CheckResult

ANSWER = view(ended(ended_by="text", response="Ordered two mugs."))
SILENT = view(ended(ended_by="empty", response=""))


@dataclass
class Reason:
    value: Any
    reason: str | None = None


@dataclass
class Evaluator:
    """As of pydantic-evals: ``evaluate`` gets a context; ``evaluate_sync`` waits for it if necessary."""

    output: Any

    def evaluate(self, ctx: Any) -> Any:
        assert (ctx.inputs, ctx.output) == (ANSWER.prompt, "Ordered two mugs.")
        assert ctx.duration > 0
        return self.output

    def evaluate_sync(self, ctx: Any) -> Any:
        return asyncio.run(self._evaluated(ctx))

    async def _evaluated(self, ctx: Any) -> Any:
        return self.evaluate(ctx)


@pytest.mark.parametrize(
    ("output", "at_least", "passed", "measured"),
    [
        (True, None, True, "True"),
        (Reason(False, "no mug is named"), None, False, "False (no mug is named)"),
        ({"polite": True, "right": False}, None, False, "polite: True; right: False"),
        ({"polite": True, "score": 0.2}, None, True, "polite: True; score: 0.2"),
        (0.8, 0.7, True, "0.8"),
        (0.6, 0.7, False, "0.6"),
        (0.9, None, None, "0.9"),
        ("formal", None, None, "formal"),
    ],
)
def test_evaluator_judges_answer(
    output: Any, at_least: float | None, passed: bool | None, measured: str
) -> None:
    result = as_check(Evaluator(output), at_least)(ANSWER)
    assert (result.passed, result.measured) == (passed, measured)
    assert result.name == "Evaluator"


def test_evaluator_runs_inside_an_event_loop() -> None:
    async def check() -> CheckResult:
        return as_check(Evaluator(True))(ANSWER)

    assert asyncio.run(check()).passed is True


class Metric:
    """As of DeepEval: ``measure`` sets the score, the reason and an error."""

    threshold = 0.5

    def __init__(self, score: float | None, error: str = "") -> None:
        self.next_score, self.error = score, error
        self.score: float | None = None
        self.reason = ""

    def measure(self, test_case: Any) -> float | None:
        assert (test_case.input, test_case.actual_output) == (ANSWER.prompt, "Ordered two mugs.")
        self.score, self.reason = self.next_score, "it names two mugs"
        return self.score

    def is_successful(self) -> bool:
        return self.score is not None and self.score >= self.threshold


@pytest.mark.parametrize(
    ("metric", "at_least", "passed", "expected"),
    [
        (Metric(0.7), None, True, "at least 0.5"),
        (Metric(0.3), None, False, "at least 0.5"),
        (Metric(0.7), 0.9, False, "at least 0.9"),
        (Metric(None), None, None, ""),
        (Metric(0.9, error="the judge is not reachable"), None, None, ""),
    ],
)
def test_metric_judges_answer(
    metric: Metric, at_least: float | None, passed: bool | None, expected: str
) -> None:
    result = as_check(metric, at_least)(ANSWER)
    assert (result.passed, result.expected) == (passed, expected)
    if passed is not None:
        assert result.measured.endswith("(it names two mugs)")


def test_episode_without_answer_is_not_judged() -> None:
    result = as_check(Evaluator(True))(SILENT)
    assert (result.passed, result.applies) == (None, False)


def failing(_: EpisodeView) -> bool:
    raise ConnectionError("the judge is down")


def test_failed_evaluator_is_unknown_not_a_failure_of_the_agent() -> None:
    result = as_check(failing)(ANSWER)
    assert result.passed is None
    assert result.message == "failing raised ConnectionError: the judge is down"


def test_function_may_return_result_or_truth() -> None:
    assert as_check(lambda view: "mugs" in (view.answer or ""))(ANSWER).passed is True
    assert as_check(lambda view: CheckResult(passed=False, name="mine"))(ANSWER).name == "mine"
    assert as_check(lambda view: 7)(ANSWER).passed is None


@pytest.mark.parametrize(
    ("check", "problem"), [(Evaluator, "is a class: give an instance"), (7, "not a check")]
)
def test_other_objects_are_refused(check: object, problem: str) -> None:
    with pytest.raises(TypeError, match=problem):
        as_check(check)


def test_experiment_takes_evaluators_as_checks() -> None:
    from wirefault import Experiment

    experiment = Experiment(
        subject=lambda prompt: prompt, prompts=["x"], checks=[Evaluator(True), Metric(0.7)]
    )
    results = [check_episode(parse_assertion(entry), ANSWER) for entry in experiment.checks]
    assert [(result.name, result.passed) for result in results] == [("Evaluator", True), ("Metric", True)]


PACKAGES = ROOT / ".frameworks" / "evaluators"
REAL = """
import asyncio
from dataclasses import dataclass

from deepeval.metrics import BaseMetric
from pydantic_evals.evaluators import Contains, EvaluationReason, Evaluator, EvaluatorContext

from tests.experiments.assertions.test_evaluators import ANSWER
from wirefault.experiments.assertions.evaluators import as_check

@dataclass
class Slow(Evaluator):
    async def evaluate(self, ctx: EvaluatorContext):
        await asyncio.sleep(0)
        return EvaluationReason("mugs" in ctx.output, "looked")

class Length(BaseMetric):
    __name__ = "Length"
    threshold = 0.5
    def measure(self, test_case, *args, **kwargs):
        self.score = float(len(test_case.actual_output) > 5)
        self.reason = type(test_case).__module__.partition(".")[0]
        self.success = self.score >= self.threshold
        return self.score
    def is_successful(self):
        return self.success

for each in (Contains("two mugs"), Contains("three"), Slow(), Length()):
    result = as_check(each)(ANSWER)
    print(result.name, result.passed, result.measured)
"""


@pytest.mark.slow
def test_real_packages() -> None:
    if not PACKAGES.exists():
        why = "`make evaluators` installs pydantic-evals and DeepEval"
        (pytest.fail if required("evaluators") else pytest.skip)(why)
    environ = {
        **os.environ,
        "PYTHONPATH": f"{PACKAGES}{os.pathsep}{ROOT}",
        "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    }
    done = subprocess.run(
        [sys.executable, "-c", REAL], env=environ, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        "Contains True True",
        "Contains False False (Output string 'Ordered two mugs.' does not contain expected string 'three')",
        "Slow True True (looked)",
        "Length True 1 (deepeval)",
    ], done.stderr
