"""From the measures of the arms to the verdict: held, deviated or unknown. Pure.

A statement held, or deviated, only if no outcome of the open episodes could change that; else it is unknown.
A subject without its steady state, or that no fault reached, is not judged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from wirefault.experiments.assertions.on_arm import Asserted
from wirefault.experiments.experiment import AFTER, ALONE, CONTROL
from wirefault.experiments.expression import Expression, exactly, parse_expression
from wirefault.experiments.measures import BUDGET_STRIKES, Measure, against_control
from wirefault.experiments.safety import Safety, Spending
from wirefault.judging.checker import CheckResult
from wirefault.judging.findings.finding import Finding
from wirefault.judging.rates import NO_CLAIMS, UncheckedClaims
from wirefault.lab.toxiproxy import VERIFIED

ExperimentVerdict = Literal["held", "deviated", "unknown", "aborted"]
_OF_TRUTH: Mapping[bool | None, ExperimentVerdict] = {True: "held", False: "deviated", None: "unknown"}


@dataclass(frozen=True)
class Check:
    """One statement about one arm. ``measured`` is for people; ``episodes`` show a deviation.

    For an assertion also its name, ``expected``, the event ids in ``evidence``, and ``results`` by episode.
    """

    arm: str
    statement: str
    verdict: ExperimentVerdict
    measured: Mapping[str, str] = field(default_factory=dict)
    message: str = ""
    episodes: tuple[str, ...] = ()
    assertion: str = ""
    expected: str = ""
    evidence: tuple[str, ...] = ()
    results: Mapping[str, CheckResult] = field(default_factory=dict)


@dataclass(frozen=True)
class ArmResult:
    """An arm that was run, in one run or several. ``failure`` says why it shows nothing, empty if it does.

    ``missing`` counts episodes that were not run. ``invalid`` has the reasons by episode key; ``reruns`` the
    episodes that were invalid in an earlier run, and why. ``differences``: findings by comparison with the
    control. ``claims``: what the agent said where no oracle checks it.
    """

    name: str
    run_ids: tuple[str, ...]
    hypothesis: tuple[str, ...]
    measures: Mapping[str, Measure]
    failure: str = ""
    asserted: tuple[Asserted, ...] = ()
    missing: int = 0
    invalid: Mapping[str, str] = field(default_factory=dict)
    reruns: tuple[str, ...] = ()
    differences: tuple[Finding, ...] = ()
    claims: UncheckedClaims = NO_CLAIMS


@dataclass(frozen=True)
class ExperimentEnd:
    """How the last run ended, where histories cannot tell; empty fields where there is nothing.

    ``aborted`` is the abort condition that was true, ``limited`` the limit that was reached, ``rollback``
    ``verified`` or why something may still be broken.
    """

    aborted: str = ""
    limited: str = ""
    rollback: str = ""


@dataclass(frozen=True)
class Judged:
    """The verdict and, in ``because``, the deciding statement."""

    verdict: ExperimentVerdict
    because: str
    checks: list[Check]
    decided_by: Check | None = None
    """The check behind ``because``; None if all held."""


def judge_experiment(arms: Iterable[ArmResult]) -> Judged:
    """Judge the arms that were run, the control first."""
    completed = {arm.name: arm for arm in arms}
    if ALONE in completed:
        return _judged_alone(completed[ALONE])
    control = completed[CONTROL]
    checks = [check for arm in completed.values() for check in _checks_of(arm, control)]
    before = _worst(check for check in checks if check.arm == CONTROL)
    if before is not None:
        return Judged(
            "unknown",
            f"it was not in its steady state before any fault: {_described(before)}",
            checks,
            before,
        )
    worst = _worst(checks)
    if worst is None:
        return Judged("held", f"all of {len(checks)} statements held", checks)
    return Judged(worst.verdict, f"{_place(worst)}: {_described(worst)}", checks, worst)


def _judged_alone(arm: ArmResult) -> Judged:
    """The verdict of an experiment without faults: its checks alone."""
    if arm.failure:
        checks = [Check(arm.name, "the arm is run", "unknown", message=arm.failure)]
    else:
        checks = [_check(arm.name, text, arm.measures) for text in arm.hypothesis]
        checks += [_assertion_check(arm.name, asserted) for asserted in arm.asserted]
    worst = _worst(checks)
    if worst is None:
        return Judged("held", f"all of {len(checks)} statements held, without faults", checks)
    return Judged(worst.verdict, f"{_place(worst)}: {_described(worst)}", checks, worst)


def _checks_of(arm: ArmResult, control: ArmResult) -> list[Check]:
    if arm.failure:
        return [Check(arm.name, "the arm is run", "unknown", message=arm.failure)]
    strikes = arm.measures.get(BUDGET_STRIKES)
    by_budgets = strikes is not None and strikes.bounds is not None and strikes.bounds.low > 0
    if arm.name in (CONTROL, AFTER):
        return [
            *([_struck_in_calm(arm)] if by_budgets else []),
            *(_check(arm.name, text, arm.measures) for text in arm.hypothesis),
        ]
    measures = against_control(arm.measures, control.measures) if not control.failure else arm.measures
    reached = f"faults_delivered + {BUDGET_STRIKES} > 0" if by_budgets else "faults_delivered > 0"
    struck = _check(arm.name, reached, measures)
    if struck.verdict == "deviated":  # then the other statements do not show the faults' effect
        return [Check(arm.name, struck.statement, "unknown", struck.measured, "no fault reached it")]
    statements = (_check(arm.name, text, measures) for text in arm.hypothesis)
    return [struck, *statements, *(_assertion_check(arm.name, asserted) for asserted in arm.asserted)]


def _struck_in_calm(arm: ArmResult) -> Check:
    """A check that no budget refused anything in the control, where nothing should break."""
    measured = {BUDGET_STRIKES: arm.measures[BUDGET_STRIKES].text}
    message = "a budget that refuses requests without any fault is too small for these prompts"
    return Check(arm.name, f"no {BUDGET_STRIKES}", "unknown", measured, message)


def _check(arm: str, text: str, measures: Mapping[str, Measure]) -> Check:
    expression = parse_expression(text)
    measured = {name: measures[name].text if name in measures else "no data" for name in expression.names}
    bounds = {
        name: bounds_of for name, measure in measures.items() if (bounds_of := measure.bounds) is not None
    }
    if missing := [name for name in expression.names if name not in bounds]:
        return Check(arm, text, "unknown", measured, f"no data for {', '.join(missing)}")
    truth = expression.holds(bounds)
    why = "; ".join(dict.fromkeys(measures[name].why for name in expression.names if measures[name].why))
    if truth is None:
        message = why or "the episodes that are unknown leave it open"
        return Check(arm, text, "unknown", measured, message)
    if truth:
        return Check(arm, text, "held", measured)
    episodes = dict.fromkeys(key for name in expression.names for key in measures[name].episodes)
    return Check(arm, text, "deviated", measured, why, tuple(episodes))


def _assertion_check(arm: str, asserted: Asserted) -> Check:
    result, what = asserted.result, "measured" if asserted.results is None else "passed"
    return Check(
        arm,
        asserted.statement,
        _OF_TRUTH[result.passed],
        {what: result.measured} if result.measured else {},
        result.message,
        asserted.episodes,
        result.name,
        result.expected,
        result.evidence,
        asserted.results or {},
    )


def _worst(checks: Iterable[Check]) -> Check | None:
    """The first check that deviated, else the first unknown one; None if all held."""
    all_checks = list(checks)
    return next((c for verdict in ("deviated", "unknown") for c in all_checks if c.verdict == verdict), None)


def _place(check: Check) -> str:
    return "afterwards, without faults" if check.arm == AFTER else check.arm


def _described(check: Check) -> str:
    figures = ", ".join(f"{name} {text}" for name, text in check.measured.items())
    message = f" ({check.message})" if check.message else ""
    return f"{check.statement}: {figures}{message}" if figures else f"{check.statement}{message}"


_EXPERIMENT = "experiment"
_UNBOUNDED = 1e12  # above every time or cost in a condition


def conclude(judged: Judged, end: ExperimentEnd, rollback: str, unwatched: Mapping[str, str]) -> Judged:
    """The verdict after the end of the run.

    ``rollback`` is ``verified`` or why not; ``unwatched`` maps each unwatched limit to the reason. With
    either the verdict is not held.
    """
    if end.aborted:
        return replace(judged, verdict="aborted", because=end.aborted)
    if end.limited:
        return replace(judged, verdict="unknown", because=f"{end.limited}: not everything was run")
    checks = [Check(_EXPERIMENT, bound, "unknown", message=why) for bound, why in unwatched.items()]
    if rollback != VERIFIED:
        checks.append(Check(_EXPERIMENT, "rollback", "unknown", message=rollback))
    judged = replace(judged, checks=[*judged.checks, *checks])
    if judged.verdict == "held" and checks:
        return replace(judged, verdict="unknown", because=f"{checks[0].statement}: {checks[0].message}")
    return judged


def unwatched_bounds(safety: Safety, limits: Spending, arms: Sequence[ArmResult]) -> dict[str, str]:
    """The conditions and limits without data until the end, and why."""
    completed = [arm for arm in arms if arm.measures]
    without = {f"abort: {text}": _why_unwatched(text, completed) for text in safety.abort}
    if limits.cost is not None:
        without[f"limits.cost: {limits.cost:g}"] = _without_cost(completed)
    return {bound: why for bound, why in without.items() if why}


def _why_unwatched(condition: str, arms: Sequence[ArmResult]) -> str:
    """Empty if it was watched until the end."""
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
    """Whether the error rate leaves the condition open; its other names were watched, at any value."""
    success = arm.measures["success_rate"].bounds
    if success is None:
        return True
    error_rate = exactly(1) - success
    return any(
        condition.holds({name: exactly(other) for name in condition.names} | {"error_rate": error_rate})
        is None
        for other in (0.0, _UNBOUNDED)
    )
