"""From the measures of the arms to the verdict: held, deviated or unknown. Pure.

A statement has held, or deviated, only if it does so whatever the episodes without an outcome would have
shown; else it is unknown. Nothing is said of a subject that was not in its steady state, nor of one that no
fault reached.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from windtunnel.experiments.experiment import AFTER, CONTROL
from windtunnel.experiments.expression import parse_expression
from windtunnel.experiments.measures import Measure, against_control

ExperimentVerdict = Literal["held", "deviated", "unknown"]
_OF_TRUTH: Mapping[bool | None, ExperimentVerdict] = {True: "held", False: "deviated", None: "unknown"}


@dataclass(frozen=True)
class Check:
    """One statement about one arm. ``measured``: in words; ``episodes``: those that show a deviation."""

    arm: str
    statement: str
    verdict: ExperimentVerdict
    measured: Mapping[str, str] = field(default_factory=dict)
    message: str = ""
    episodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class FlownArm:
    """An arm that was flown, in one run or several. ``failure``: why it shows nothing, empty if it does."""

    name: str
    run_ids: tuple[str, ...]
    hypothesis: tuple[str, ...]
    measures: Mapping[str, Measure]
    failure: str = ""


@dataclass(frozen=True)
class Judged:
    """``because``: what decided, in a sentence."""

    verdict: ExperimentVerdict
    because: str
    checks: list[Check]


def judge_experiment(arms: Iterable[FlownArm]) -> Judged:
    """The verdict on the arms that were flown, the control first."""
    flown = {arm.name: arm for arm in arms}
    control = flown[CONTROL]
    checks = [check for arm in flown.values() for check in _checks_of(arm, control)]
    before = _worst(check for check in checks if check.arm == CONTROL)
    if before is not None:
        return Judged("unknown", f"it was not in its steady state before any fault: {_told(before)}", checks)
    worst = _worst(checks)
    if worst is None:
        return Judged("held", f"all of {len(checks)} statements held", checks)
    return Judged(worst.verdict, f"{_place(worst)}: {_told(worst)}", checks)


def _checks_of(arm: FlownArm, control: FlownArm) -> list[Check]:
    if arm.failure:
        return [Check(arm.name, "the arm is flown", "unknown", message=arm.failure)]
    if arm.name in (CONTROL, AFTER):
        return [_check(arm.name, text, arm.measures) for text in arm.hypothesis]
    measures = against_control(arm.measures, control.measures) if not control.failure else arm.measures
    struck = _check(arm.name, "faults_delivered > 0", measures)
    if struck.verdict == "deviated":  # then what the others show is not what the faults did
        return [Check(arm.name, struck.statement, "unknown", struck.measured, "no fault reached it")]
    return [struck, *(_check(arm.name, text, measures) for text in arm.hypothesis)]


def _check(arm: str, text: str, measures: Mapping[str, Measure]) -> Check:
    expression = parse_expression(text)
    measured = {name: measures[name].shown if name in measures else "no data" for name in expression.names}
    bounds = {name: found for name, measure in measures.items() if (found := measure.bounds) is not None}
    if missing := [name for name in expression.names if name not in bounds]:
        return Check(arm, text, "unknown", measured, f"no data for {', '.join(missing)}")
    truth = expression.holds(bounds)
    if truth is None:
        return Check(arm, text, "unknown", measured, "what is not known of some episodes leaves it open")
    episodes = dict.fromkeys(key for name in expression.names for key in measures[name].episodes)
    return Check(arm, text, _OF_TRUTH[truth], measured, episodes=() if truth else tuple(episodes))


def _worst(checks: Iterable[Check]) -> Check | None:
    """The first that deviated, else the first that is unknown; None if all held."""
    given = list(checks)
    return next((c for verdict in ("deviated", "unknown") for c in given if c.verdict == verdict), None)


def _place(check: Check) -> str:
    return "afterwards, without faults" if check.arm == AFTER else check.arm


def _told(check: Check) -> str:
    figures = ", ".join(f"{name} {shown}" for name, shown in check.measured.items())
    message = f" ({check.message})" if check.message else ""
    return f"{check.statement}: {figures}{message}" if figures else f"{check.statement}{message}"
