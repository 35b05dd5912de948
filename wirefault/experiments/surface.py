"""Success over repeats by perturbation and fault level, and how far the hypothesis held by level. Pure.

The surface R(k, perturbation, level) has pass^k of each arm; level 0 is the control.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from wirefault.experiments.estimates import Terms
from wirefault.experiments.experiment import AFTER
from wirefault.experiments.measure import Measure
from wirefault.experiments.plan import ExperimentPlan, PlannedArm, pass_name
from wirefault.experiments.tries import OverTries
from wirefault.experiments.verdict import NO_FAULT_REACHED, ArmResult, Check, Judged

LevelState = Literal["held", "deviated", "unknown", "no fault arrived"]
_LEVEL_MEASURES = ("success_rate", "faults_delivered", "p50", "p95")


@dataclass(frozen=True)
class Cell:
    """pass^k of one arm, with the interval of the experiment's confidence; None without data."""

    variant: str
    """The arm of the file whose faults are compared; empty without faults."""
    perturbation: str
    """Empty for the prompts as written."""
    level: float
    k: int
    arm: str
    value: float | None
    """None also while episodes are open."""
    low: float | None
    high: float | None
    prompts: int
    """Prompts with at least k tries."""
    n: int
    """Tries at them."""


def surface_cells(plan: ExperimentPlan, results: Sequence[ArmResult]) -> list[Cell]:
    """The surface of the experiment, by variant, perturbation, k and level; empty if it has none."""
    completed = {arm.name: arm for arm in results}
    cells = []
    for variant in dict.fromkeys(arm.variant for arm in plan.arms if arm.variant) or [""]:
        for perturbation in ("", *plan.perturbed):
            arms = [
                arm
                for arm in plan.arms
                if arm.perturbation == perturbation and arm.variant in ("", variant) and arm.name != AFTER
            ]
            arms.sort(key=lambda arm: arm.level)
            cells += [
                _cell(variant, arm, k, completed.get(arm.name), plan.terms)
                for k in plan.surface_tries
                for arm in arms
            ]
    return cells


def _cell(variant: str, arm: PlannedArm, k: int, result: ArmResult | None, terms: Terms) -> Cell:
    measure = result.measures.get(pass_name(k)) if result else None
    estimate = measure.estimate if measure else None
    place = (variant, arm.perturbation, arm.level, k, arm.name)
    if not isinstance(estimate, OverTries):
        return Cell(*place, None, None, None, 0, 0)
    interval = estimate.interval(terms.error)
    return Cell(
        *place, estimate.value, float(interval.low), float(interval.high), estimate.prompts, estimate.n
    )


@dataclass(frozen=True)
class LevelAnswer:
    """How far an arm held: its levels in their order, each with the verdict on its statements.

    ``last_held`` is the last of the levels that held one after the other from the lowest on,
    ``first_deviated`` the first that deviated. Levels at which no fault arrived show nothing, and are passed
    over.
    """

    arm: str
    """The arm at level 1."""
    last_held: float | None
    first_deviated: float | None
    between: Mapping[float, LevelState] = field(default_factory=dict)
    """The levels above the one and below the other."""


def level_answers(plan: ExperimentPlan, judged: Judged) -> list[LevelAnswer]:
    """The answer for each arm that has levels and was run."""
    answers = []
    for name, arms in _by_arm(plan).items():
        checks = {
            arm.level: [check for check in judged.checks if check.arm == arm.name]
            for arm in sorted(arms, key=lambda arm: arm.level)
        }
        states = {level: _state(of_level) for level, of_level in checks.items() if of_level}
        if states:
            answers.append(_answer(name, states))
    return answers


def _by_arm(plan: ExperimentPlan) -> dict[str, list[PlannedArm]]:
    """The arms at a level, by the name of the arm that they are levels of."""
    by_arm: dict[str, list[PlannedArm]] = {}
    for arm in plan.leveled:
        by_arm.setdefault(arm.unleveled_name, []).append(arm)
    return by_arm


def _state(checks: Sequence[Check]) -> LevelState:
    verdicts = {check.verdict for check in checks}
    if "deviated" in verdicts:
        return "deviated"
    if verdicts == {"held"}:
        return "held"
    return "no fault arrived" if any(check.message == NO_FAULT_REACHED for check in checks) else "unknown"


def _answer(arm: str, states: Mapping[float, LevelState]) -> LevelAnswer:
    """``states`` are in the order of the levels."""
    first_deviated = next((level for level, state in states.items() if state == "deviated"), None)
    below = {
        level: state for level, state in states.items() if first_deviated is None or level < first_deviated
    }
    last_held = None
    for level, state in below.items():
        if state == "unknown":
            break
        last_held = level if state == "held" else last_held
    between = {level: state for level, state in below.items() if last_held is None or level > last_held}
    return LevelAnswer(arm, last_held, first_deviated, between)


def level_measures(
    plan: ExperimentPlan, results: Sequence[ArmResult]
) -> Iterator[tuple[PlannedArm, Mapping[str, Measure]]]:
    """Yield the arm of each level that was run, with some of its measures."""
    completed = {arm.name: arm for arm in results}
    for arm in plan.leveled:
        result = completed.get(arm.name)
        if result is not None and not result.failure:
            yield arm, {name: result.measures[name] for name in _LEVEL_MEASURES}


def level_rows(plan: ExperimentPlan, results: Sequence[ArmResult]) -> list[dict[str, Any]]:
    """A row with the numbers of each level that was run."""
    return [
        {"arm": arm.unleveled_name, "level": arm.level, "capped": list(arm.capped)}
        | {name: measure.as_json() for name, measure in measures.items()}
        for arm, measures in level_measures(plan, results)
    ]
