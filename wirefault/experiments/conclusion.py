"""From what the arms show to the verdict of the experiment: how the flight ended may decide it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from wirefault.experiments.bounds import exactly
from wirefault.experiments.expression import Expression, parse_expression
from wirefault.experiments.limits import Spending
from wirefault.experiments.safety import Safety
from wirefault.experiments.saved import ExperimentEnd
from wirefault.experiments.verdict import ArmResult, Check, Judged
from wirefault.lab.rollback import VERIFIED

_EXPERIMENT = "experiment"
_MUCH = 1e12  # more than any condition says of time or cost


def conclude(judged: Judged, end: ExperimentEnd, rollback: str, unwatched: Mapping[str, str]) -> Judged:
    """The verdict once it is known how the flight ended.

    ``rollback``: ``verified``, or why not; ``unwatched``: the bounds that could not be watched, each with
    why. With either nothing has held for certain.
    """
    if end.aborted:
        return replace(judged, verdict="aborted", because=end.aborted)
    if end.limited:
        return replace(judged, verdict="unknown", because=f"{end.limited}: not all was flown")
    checks = [Check(_EXPERIMENT, bound, "unknown", message=why) for bound, why in unwatched.items()]
    if rollback != VERIFIED:
        checks.append(Check(_EXPERIMENT, "rollback", "unknown", message=rollback))
    judged = replace(judged, checks=[*judged.checks, *checks])
    if judged.verdict == "held" and checks:
        return replace(judged, verdict="unknown", because=f"{checks[0].statement}: {checks[0].message}")
    return judged


def unwatched_bounds(safety: Safety, limits: Spending, arms: Sequence[ArmResult]) -> dict[str, str]:
    """Which conditions and limits were without data to the end, and why."""
    flown = [arm for arm in arms if arm.measures]
    without = {f"abort: {text}": _why_unwatched(text, flown) for text in safety.abort}
    if limits.cost is not None:
        without[f"limits.cost: {limits.cost:g}"] = _without_cost(flown)
    return {bound: why for bound, why in without.items() if why}


def _why_unwatched(condition: str, arms: Sequence[ArmResult]) -> str:
    """Empty where it was watched to the end."""
    expression = parse_expression(condition)
    if "cost" in expression.names and (why := _without_cost(arms)):
        return why
    if "error_rate" in expression.names:
        for arm in arms:
            if _stays_open(expression, arm):
                return f"episodes without an outcome leave error_rate open in {arm.name}"
    return ""


def _without_cost(arms: Sequence[ArmResult]) -> str:
    costs = [arm.measures.get("cost") for arm in arms]
    return "no data for cost" if any(cost is None or cost.bounds is None for cost in costs) else ""


def _stays_open(condition: Expression, arm: ArmResult) -> bool:
    """Whether its error rate leaves the condition open; all else that it names was watched, at any value."""
    success = arm.measures["success_rate"].bounds
    if success is None:
        return True
    error_rate = exactly(1) - success
    return any(
        condition.holds({name: exactly(other) for name in condition.names} | {"error_rate": error_rate})
        is None
        for other in (0.0, _MUCH)
    )
