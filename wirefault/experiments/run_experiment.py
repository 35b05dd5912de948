"""Flies an experiment: its arms one after the other, by an engine, and judges them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from wirefault.core.errors import DEVIATED, LAB_FAILED, UNKNOWN, InputError
from wirefault.core.interrupts import INTERRUPTED
from wirefault.experiments.engine import Engine, LocalEngine, RunArm, RunControl
from wirefault.experiments.experiment import Experiment
from wirefault.experiments.experiment_file import ExperimentFile
from wirefault.experiments.plan import ExperimentPlan, plan_experiment
from wirefault.experiments.saved import SavedExperiment, save
from wirefault.experiments.verdict import (
    ArmResult,
    ExperimentVerdict,
    Judged,
    conclude,
    judge_experiment,
    unwatched_bounds,
)
from wirefault.experiments.watch import Watch
from wirefault.lab.process import print_to_stderr
from wirefault.lab.toxiproxy import choose_toxiproxy
from wirefault.runner.run import new_run_id
from wirefault.wiring.spec_file import SpecFile

_CODES: dict[ExperimentVerdict, int] = {
    "held": 0,
    "deviated": DEVIATED,
    "unknown": UNKNOWN,
    "aborted": UNKNOWN,
}


@dataclass
class ExperimentResult:
    """``arms`` as flown. ``judged`` is None where it came to no verdict; ``code`` is to end with.

    ``rollback``: ``verified``, or why it cannot be said that all toxics are gone. ``flight``: what the flight
    that has just ended took, empty for one that was only read.
    """

    saved: SavedExperiment
    arms: list[ArmResult] = field(default_factory=list)
    judged: Judged | None = None
    code: int = LAB_FAILED
    rollback: str = ""
    flight: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left to be flown; else it can be resumed."""
        return self.saved.is_done(self.arms) and not any(arm.missing for arm in self.arms)

    @property
    def can_be_resumed(self) -> bool:
        """Whether it ended before all was flown; one that was aborted stays so."""
        if self.judged is None:
            return self._without_verdict is None
        return not self.is_whole and self.judged.verdict != "aborted"

    @property
    def verdict(self) -> ExperimentVerdict | None:
        """``held``, ``deviated``, ``unknown`` or ``aborted``; None if it did not come to one."""
        return self.judged.verdict if self.judged else None

    @property
    def plan(self) -> ExperimentPlan:
        return self.saved.plan

    @property
    def _without_verdict(self) -> str | None:
        return "flown" if self.plan.is_plain_run and self.code == 0 else None

    def as_json(self) -> dict[str, Any]:
        """One JSON object; without a verdict it has ``null``."""
        judged = self.judged
        return {
            "experiment": self.saved.experiment_id,
            "title": self.plan.experiment.title,
            "description": self.plan.experiment.description,
            "tags": list(self.plan.experiment.tags),
            "seed": self.plan.seed,
            "verdict": judged.verdict if judged else self._without_verdict,
            "because": judged.because if judged else "it was not flown to its end",
            "rollback": self.rollback or None,
            "flight": dict(self.flight) or None,
            "checks": [asdict(check) for check in judged.checks] if judged else [],
            "arms": [
                {
                    "arm": arm.name,
                    "run_ids": list(arm.run_ids),
                    "failure": arm.failure,
                    "invalid": dict(arm.invalid),
                    "flown_again": list(arm.flown_again),
                    "measures": {name: measure.shown for name, measure in arm.measures.items()},
                }
                for arm in self.arms
            ],
        }


def judged_again(saved: SavedExperiment) -> ExperimentResult:
    """An experiment as its histories show it, nothing flown."""
    arms = [saved.arm_result(arm) for arm in saved.plan.arms if saved.run_ids(arm)]
    flight = ExperimentResult(saved, arms, code=UNKNOWN)
    if saved.plan.is_plain_run:
        flight.code = 0 if flight.is_whole and not any(arm.failure for arm in arms) else UNKNOWN
    elif arms and (saved.end.aborted or saved.end.limited or flight.is_whole):
        _judge(flight)
    return flight


def run(
    experiment: Experiment,
    *,
    folder: Path | str = ".",
    workers: int = 1,
    toxiproxy: str = "auto",
    say: Callable[[str], None] = print_to_stderr,
) -> ExperimentResult:
    """Run the experiment in a lab of its own and judge it. Call it in the main thread.

    Paths in the experiment are relative to ``folder``; ``workers`` episodes run at once; ``toxiproxy`` is
    ``auto``, ``embedded`` or a server's URL; ``say`` gets sentences about the progress. What was run is kept
    under ``logs``, as by ``wirefault run``. Raises ``InputError`` for an experiment that cannot run.
    """
    given = ExperimentFile(
        experiment, Path(folder), SpecFile("experiment", experiment.model_dump(exclude_unset=True))
    )
    plan = plan_experiment(given, os.environ)
    choice = choose_toxiproxy(toxiproxy, plan.configuration.environ)
    saved = save(plan, new_run_id())
    return run_experiment(saved, RunControl(choice, say, lambda _: None, workers), LocalEngine())


def run_experiment(saved: SavedExperiment, how: RunControl, engine: Engine) -> ExperimentResult:
    """Flies the episodes that have not come to their end yet, arm by arm, and judges all of them.

    The control that is not in its steady state is the last arm flown. Raises ``OSError`` if what it leaves
    cannot be written, ``InputError`` for one that was aborted.
    """
    if aborted := saved.end.aborted:
        raise InputError(
            f"{saved.experiment_id} was aborted ({aborted}) and stays so;"
            f" wirefault run --again {saved.experiment_id} runs it from the beginning"
        )
    saved.forget_end()
    flight = ExperimentResult(saved)
    watch = Watch(saved, how.halt, how.progress)

    def run_arms(run_arm: RunArm) -> int:
        if saved.plan.is_plain_run:
            return run_arm(saved.plan.arms[0])
        for arm in saved.plan.arms:
            began = time.monotonic()
            with watch.over(arm):
                code = run_arm(arm)
                for _ in range(saved.retry_invalid):
                    if code == INTERRUPTED or how.halt.asked or not saved.left_of(arm):
                        break
                    code = run_arm(arm)
            if code == INTERRUPTED:
                return INTERRUPTED
            flight.arms.append(saved.arm_result(arm))
            how.arm_done(flight.arms[-1])
            how.say(f"{arm.name}: {time.monotonic() - began:.1f} s")
            if how.halt.asked or saved.is_done(flight.arms):
                break
        return 0

    flight.code = engine.run(saved, how, run_arms)
    flight.flight = {**watch.taken, "workers": how.workers}
    if flight.code == 0 and not saved.plan.is_plain_run:
        _judge(flight)
    saved.write_verdict(flight.as_json())
    return flight


def _judge(flight: ExperimentResult) -> None:
    """Gives the flight its verdict, exit code and rollback."""
    saved, end = flight.saved, flight.saved.end
    if flight.is_whole:
        end = replace(end, limited="")  # it was reached when nothing was left to be flown
    flight.rollback = end.rollback or saved.rollback_by_histories()
    experiment = flight.plan.experiment
    unwatched = unwatched_bounds(experiment.safety, experiment.limits, flight.arms)
    flight.judged = conclude(judge_experiment(flight.arms), end, flight.rollback, unwatched)
    flight.code = _CODES[flight.judged.verdict]


def obstacles_in(flight: ExperimentResult) -> dict[str, list[str]]:
    """By arm what depended on order, on the clock or on a model that is not the lab's; of arms without any
    nothing. Of a run that cannot be read nothing is known, which the verdict says."""
    saved = flight.saved
    reasons = {
        arm.name: [
            reason for run_id in saved.run_ids(arm) for reason in saved.facts_of_run(arm, run_id).decided_by
        ]
        for arm in saved.plan.arms
    }
    if not flight.is_whole:
        reasons["experiment"] = ["not all of it was flown"]
    return {place: list(dict.fromkeys(of_place)) for place, of_place in reasons.items() if of_place}
