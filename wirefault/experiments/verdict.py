"""From the measures of the arms to the verdict: held, deviated or unknown. Pure.

A check held, or deviated, only if no outcome of the open episodes could change that; else it is unknown. A
claim held if its whole interval satisfies it, and deviated if its whole interval violates it; deviations of
several claims share the error. A subject without its steady state, or that no fault reached, is not judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from wirefault.experiments.against_control import loss_between
from wirefault.experiments.assertions.on_arm import Asserted
from wirefault.experiments.estimates import Rate, Terms
from wirefault.experiments.experiment import AFTER, ALONE, CONTROL, name_before_perturbation
from wirefault.experiments.expression import parse_expression
from wirefault.experiments.figures import BUDGET_STRIKES, SUCCESS_SHARE, against_control
from wirefault.experiments.hypothesis import (
    Claim,
    ClaimFigures,
    Kind,
    Statement,
    episodes_for_within,
    none_failed_in,
    none_in,
    parse_statements,
)
from wirefault.experiments.measure import Measure, Number
from wirefault.experiments.resilience import Resilience
from wirefault.experiments.safety import Safety, Spending
from wirefault.experiments.sequential import Decision
from wirefault.history.judged_events import Finding
from wirefault.judging.checker import CheckResult
from wirefault.judging.rates import NO_CLAIMS, UncheckedClaims
from wirefault.stats.holm import holm
from wirefault.stats.rates import percent
from wirefault.toxiproxy.planned import VERIFIED

ExperimentVerdict = Literal["held", "deviated", "unknown", "aborted"]
NO_FAULT_REACHED = "no fault reached it"
_OF_TRUTH: Mapping[bool | None, ExperimentVerdict] = {True: "held", False: "deviated", None: "unknown"}


class Check(Struct, frozen=True):
    """One statement about one arm, a check of its episodes or a claim about a rate or a mean.

    ``measured``: its figures by name, of an assertion a text; ``episodes`` show a deviation; ``claim`` has
    the figures of a claim. For an assertion also its name, ``expected``, the event ids in ``evidence``, and
    ``results`` by episode.
    """

    arm: str
    statement: str
    verdict: ExperimentVerdict
    measured: Mapping[str, Number | str] = {}
    message: str = ""
    episodes: tuple[str, ...] = ()
    assertion: str = ""
    expected: str = ""
    evidence: tuple[str, ...] = ()
    results: Mapping[str, CheckResult] = {}
    kind: Kind = "check"
    claim: ClaimFigures | None = None

    @property
    def figures(self) -> str:
        """What was measured, for people."""
        return ", ".join(f"{name} {figure}" for name, figure in self.measured.items())


@dataclass(frozen=True)
class ArmResult:
    """An arm that was run, in one run or several. ``failure`` says why it shows nothing, empty if it does.

    ``missing`` counts episodes that were not run. ``invalid`` has the reasons by episode key; ``reruns`` the
    episodes that were invalid in an earlier run, and why. ``differences``: findings by comparison with the
    control. ``claims``: what the agent said where no oracle checks it. ``faulted``: the measures of the arm
    and of its control over the episodes for which a fault was planned, where a statement is about these.

    It is not stored: it is made again from the facts of its runs.
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
    faulted: tuple[Mapping[str, Measure], Mapping[str, Measure]] | None = None
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    """Of sequential tests, by statement."""
    resilience: Resilience | None = field(default=None, compare=False)
    """Its failures and their costs; None without episodes."""
    waits_for: str = ""
    """The control that has not run yet and can still change an outcome."""


class ExperimentEnd(Struct, frozen=True, omit_defaults=True):
    """How the last run ended, where histories cannot tell; empty fields where there is nothing.

    ``aborted`` is the abort condition that was true, ``limited`` the limit that was reached, ``rollback``
    ``verified`` or why something may still be broken.
    """

    aborted: str = ""
    limited: str = ""
    rollback: str = ""


class Judged(Struct, frozen=True):
    """The verdict and, in ``because``, the deciding statement."""

    verdict: ExperimentVerdict
    because: str
    checks: list[Check]
    decided_by: Check | None = None
    """The check behind ``because``; None if all held."""


_TERMS = Terms()
_WORSE = 0.01  # the error of the statement that the control is not worse afterwards
_Pending = Check | tuple[str, Claim]  # a claim with its arm


def judge_experiment(arms: Iterable[ArmResult], terms: Terms = _TERMS) -> Judged:
    """Judge the arms that were run, the control first."""
    completed = {arm.name: arm for arm in arms}
    if ALONE in completed:
        return _judged_alone(list(completed.values()), terms)
    control = completed[CONTROL]
    checks = _settled([each for arm in completed.values() for each in _checks_of(arm, control, terms)], terms)
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


def _judged_alone(arms: Sequence[ArmResult], terms: Terms) -> Judged:
    """The verdict of an experiment without faults: its checks and claims alone."""
    pending: list[_Pending] = []
    for arm in arms:
        if arm.failure:
            pending.append(Check(arm.name, "the arm is run", "unknown", message=arm.failure))
            continue
        pending += [each for text in arm.hypothesis for each in _checks(arm.name, text, arm.measures, terms)]
        pending += [_assertion_check(arm.name, asserted, terms) for asserted in arm.asserted]
    checks = _settled(pending, terms)
    worst = _worst(checks)
    if worst is None:
        return Judged("held", f"all of {len(checks)} statements held, without faults", checks)
    return Judged(worst.verdict, f"{_place(worst)}: {_described(worst)}", checks, worst)


def _settled(pending: Sequence[_Pending], terms: Terms) -> list[Check]:
    """The checks with the claims decided. Their deviations share the error, also across arms.

    The control's claims do not accuse the subject and share nothing.
    """
    claims = [each for each in pending if not isinstance(each, Check)]
    sharing = [claim for arm, claim in claims if arm != CONTROL]
    rejected, left = holm(len(sharing), lambda i, error: sharing[i].truth(error) is False, terms.error)
    errors = {id(sharing[i]): error for i, error in rejected.items()}
    checks = []
    for each in pending:
        if isinstance(each, Check):
            checks.append(each)
        elif each[0] == CONTROL:
            checks.append(_claimed(*each, terms.error, terms.error, 1))
        else:
            checks.append(_claimed(*each, errors.get(id(each[1])), left, len(sharing)))
    return checks


def _claimed(arm: str, claim: Claim, rejected_at: float | None, left: float, sharing: int) -> Check:
    """``rejected_at``: the error at which it may deviate; ``left``: what the other claims leave for it."""
    error, statement = claim.terms.error, claim.statement
    truth = claim.truth(error)
    message = ""
    if truth is False and rejected_at is not None:
        error = rejected_at
    elif truth is False:  # alone it would have deviated
        truth, error = None, left
        message = f"{sharing} claims share the error"
    elif truth is None:
        message = _why_undecided(claim)
    names = statement.expression.names
    episodes = dict.fromkeys(key for name in names for key in claim.measures[name].episodes)
    why = "; ".join(dict.fromkeys(claim.measures[name].why for name in names if claim.measures[name].why))
    return Check(
        arm,
        statement.text,
        _OF_TRUTH[truth],
        claim.numbers(error),
        "; ".join(filter(None, (message, why if truth is not True else ""))),
        tuple(episodes) if truth is False else (),
        kind="claim",
        claim=claim.figures(error, truth),
    )


def _why_undecided(claim: Claim) -> str:
    if needed := claim.needed():
        return f"n = {needed} would decide if the figures stay"
    comparison = claim.statement.expression.comparison
    estimate = claim.measures[comparison.measure].estimate if comparison else None
    if comparison is None or estimate is None:
        return "the intervals leave it open: more episodes narrow them"
    bounds = claim.measures[comparison.measure].bounds
    if bounds is not None and bounds.low != bounds.high:
        return "episodes without an outcome or a figure leave it open, too"
    if math.isinf(estimate.interval(claim.terms.error).high):
        return "too few episodes show such a value for an interval with two ends"
    return "the figure is so near that no number of episodes would decide"


def _checks_of(arm: ArmResult, control: ArmResult, terms: Terms) -> list[_Pending]:
    if arm.failure:
        failed = Check(arm.name, "the arm is run", "unknown", message=arm.failure)
        return [
            failed,
            *(_decided(arm.name, text, each, arm.measures) for text, each in arm.decisions.items()),
        ]
    if arm.name != CONTROL and name_before_perturbation(arm.name) == CONTROL:
        return []  # it shows what the perturbation does without faults
    strikes = arm.measures.get(BUDGET_STRIKES)
    by_budgets = strikes is not None and strikes.bounds is not None and strikes.bounds.low > 0
    if arm.name in (CONTROL, AFTER):
        return [
            *([_struck_in_calm(arm)] if by_budgets else []),
            *_about_control(arm, control, terms),
        ]
    measures = arm.measures
    if not control.failure:
        measures = against_control(arm.measures, control.measures, terms)
    reached = f"faults_delivered + {BUDGET_STRIKES} > 0" if by_budgets else "faults_delivered > 0"
    [struck] = _checks(arm.name, reached, measures, terms)
    assert isinstance(struck, Check)
    if struck.verdict == "deviated":  # then the other statements do not show the faults' effect
        return [Check(arm.name, struck.statement, "unknown", struck.measured, NO_FAULT_REACHED)]
    faulted = against_control(*arm.faulted, terms) if arm.faulted else {}
    statements = [
        each
        for text in arm.hypothesis
        if text != reached
        for each in _checks(arm.name, text, measures, terms, faulted, arm.decisions)
    ]
    return [struck, *statements, *(_assertion_check(arm.name, each, terms) for each in arm.asserted)]


def _about_control(arm: ArmResult, control: ArmResult, terms: Terms) -> list[_Pending]:
    """Its steady state and, afterwards, that it is not worse than before."""
    checks = [
        each
        for text in arm.hypothesis
        for each in _checks(arm.name, text, arm.measures, terms, decisions=arm.decisions)
    ]
    loss = loss_between(control.measures, arm.measures) if arm.name == AFTER and not control.failure else None
    if loss is None or not loss.n:
        return checks
    worse = loss.chance_of_worse() <= _WORSE
    sides = {"control_success_rate": control, "success_rate": arm}
    compared = Check(
        AFTER,
        "not worse than before the faults",
        "deviated" if worse else "held",
        {name: _plain(name, side.measures["success_rate"]) for name, side in sides.items()},
        f"{loss.lost} of {loss.n} pairs lost, {loss.won} won (exact McNemar test, {percent(_WORSE)})",
        arm.measures["success_rate"].episodes if worse else (),
    )
    # too few episodes for a deviation by chance: the comparison decides
    open_ = [_opened(check) if isinstance(check, Check) else check for check in checks]
    return [*open_, compared]


def _opened(check: Check) -> Check:
    """A share of these episodes that is too small afterwards does not show that the agent is worse."""
    if SUCCESS_SHARE not in check.measured or check.verdict != "deviated":
        return check
    return replace(check, verdict="unknown", message="it does not show that the agent is worse than before")


def _struck_in_calm(arm: ArmResult) -> Check:
    """A check that no budget refused anything in the control, where nothing should break."""
    measured = {BUDGET_STRIKES: Number.of(BUDGET_STRIKES, arm.measures[BUDGET_STRIKES])}
    message = "a budget that refuses requests without any fault is too small for these prompts"
    return Check(arm.name, f"no {BUDGET_STRIKES}", "unknown", measured, message)


def _checks(
    arm: str,
    text: str,
    all_measures: Mapping[str, Measure],
    terms: Terms,
    faulted: Mapping[str, Measure] | None = None,
    decisions: Mapping[str, Decision] | None = None,
) -> list[_Pending]:
    """The statements of a text, checks decided and claims still to be."""
    pending: list[_Pending] = []
    for statement in parse_statements(text):
        measures = (faulted or {}) if statement.faulted else all_measures
        names = statement.expression.names
        if decisions and (decision := decisions.get(statement.text)):
            pending.append(_decided(arm, statement.text, decision, measures))
        elif missing := [name for name in names if name not in measures or measures[name].bounds is None]:
            measured = {name: Number.of(name, measures.get(name, Measure(None))) for name in names}
            message = f"no data for {', '.join(missing)}"
            pending.append(Check(arm, statement.text, "unknown", measured, message, kind=statement.kind))
        elif statement.kind == "claim":
            pending.append((arm, Claim(statement, measures, terms)))
        else:
            pending.append(_check(arm, statement, measures, terms))
    return pending


def _decided(arm: str, text: str, decision: Decision, measures: Mapping[str, Measure]) -> Check:
    """The check of a claim that a sequential test decided, or left open."""
    name = decision.measured.name
    measure = measures.get(name)
    episodes = measure.episodes if measure and decision.verdict == "deviated" else ()
    measured = {name: decision.measured}
    return Check(arm, text, decision.verdict, measured, decision.message, episodes, kind="claim")


def _check(arm: str, statement: Statement, measures: Mapping[str, Measure], terms: Terms) -> Check:
    text, names = statement.text, statement.expression.names
    measured = {name: _plain(name, measures[name]) for name in names}
    truth = statement.expression.holds(
        {name: bounds for name, measure in measures.items() if (bounds := measure.bounds) is not None}
    )
    why = "; ".join(dict.fromkeys(measures[name].why for name in names if measures[name].why))
    if truth is None:
        message = why or "the episodes that are unknown leave it open"
        return Check(arm, text, "unknown", measured, message)
    if truth:
        n = _independent(statement, measures, terms)
        if (needs := episodes_for_within(statement, terms.error)) > n:
            return Check(arm, text, "unknown", measured, f"none in {n}: it needs {needs}")
        return Check(arm, text, "held", measured, none_in(statement, n, terms.error))
    episodes = dict.fromkeys(key for name in names for key in measures[name].episodes)
    return Check(arm, text, "deviated", measured, why, tuple(episodes))


def _plain(name: str, measure: Measure) -> Number:
    """The figure of a check, which no interval decides."""
    return Number.of(name, measure, measure.figure)


def _independent(statement: Statement, measures: Mapping[str, Measure], terms: Terms) -> int:
    """The episodes of a check, or the prompts if it is about others like these; 0 if that is not known."""
    name = statement.expression.names[0] if statement.expression.names else ""
    of_arm = "control_success_rate" if name.startswith("control_") else "success_rate"
    estimate = measures[of_arm].estimate if of_arm in measures else None
    return estimate.units if isinstance(estimate, Rate) else 0


def _assertion_check(arm: str, asserted: Asserted, terms: Terms) -> Check:
    result, what = asserted.result, "measured" if asserted.results is None else "passed"
    return Check(
        arm,
        asserted.statement,
        _OF_TRUTH[result.passed],
        {what: result.measured} if result.measured else {},
        result.message or (none_failed_in(asserted.passed, terms.error) if result.passed else ""),
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
    message = f" ({check.message})" if check.message else ""
    return f"{check.statement}: {check.figures}{message}" if check.figures else f"{check.statement}{message}"


_EXPERIMENT = "experiment"


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
    return _without_cost(arms) if "cost" in parse_expression(condition).names else ""


def _without_cost(arms: Sequence[ArmResult]) -> str:
    costs = [arm.measures.get("cost") for arm in arms]
    return "no data for cost" if any(cost is None or cost.bounds is None for cost in costs) else ""
