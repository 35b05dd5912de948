"""An experiment's faults at several doses: the same prompts and draws, more or less of all that strikes.

The draws are keyed, so that what strikes at a level strikes at every higher one, too: levels are compared on
the same luck.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from wirefault.experiments.arms import ExperimentPlan, PlannedArm, at_dose, between_controls
from wirefault.experiments.verdict import Judged


@dataclass(frozen=True)
class StressLevel:
    """A dose of one arm."""

    arm: str
    level: float
    planned: PlannedArm


def levels_of(plan: ExperimentPlan, levels: Sequence[float]) -> list[StressLevel]:
    """Each arm with faults at each of these levels, 1 as written; in the order of the levels."""
    arms = [arm for arm in plan.arms if not arm.is_control]
    return [level for arm in arms for level in _of_arm(arm, levels)]


def stressed(plan: ExperimentPlan, levels: Sequence[StressLevel]) -> ExperimentPlan:
    """The plan with these arms between its controls."""
    controls = plan.arms[0], plan.arms[-1]
    return replace(plan, arms=between_controls(controls, [level.planned for level in levels]))


def holds_up_to(levels: Sequence[StressLevel], judged: Judged) -> float | None:
    """The highest of one arm's levels at which all statements held, below which none deviated; or None.

    A low level may strike nothing, and so show nothing.
    """
    verdicts = {
        level.level: {check.verdict for check in judged.checks if check.arm == level.planned.name}
        for level in levels
    }
    highest = None
    for level in sorted(verdicts):
        if "deviated" in verdicts[level]:
            break
        highest = level if verdicts[level] == {"held"} else highest
    return highest


def _of_arm(arm: PlannedArm, levels: Sequence[float]) -> Iterator[StressLevel]:
    for level in levels:
        planned = replace(at_dose(arm, level), name=f"{arm.name}-x{level:g}")
        yield StressLevel(arm.name, level, planned)
