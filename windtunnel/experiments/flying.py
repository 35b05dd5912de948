"""Flies an experiment: its arms one after the other in one lab, each a run of its own with a history."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from windtunnel.core.exit_codes import DEVIATED, LAB_FAILED, UNKNOWN
from windtunnel.core.interrupts import INTERRUPTED
from windtunnel.experiments.arms import ExperimentPlan
from windtunnel.experiments.saved import SavedExperiment, flown_arm
from windtunnel.experiments.verdict import ExperimentVerdict, FlownArm, Judged, judge_experiment
from windtunnel.lab.demo import Airspace, in_own_lab
from windtunnel.lab.process import ProcessLog
from windtunnel.lab.toxiproxy import Choice

_CODES: dict[ExperimentVerdict, int] = {"held": 0, "deviated": DEVIATED, "unknown": UNKNOWN}


@dataclass
class FlownExperiment:
    """``arms`` as flown. ``judged`` is None where it came to no verdict; ``code`` is to end with."""

    saved: SavedExperiment
    arms: list[FlownArm] = field(default_factory=list)
    judged: Judged | None = None
    code: int = LAB_FAILED

    @property
    def plan(self) -> ExperimentPlan:
        return self.saved.plan

    def as_json(self) -> dict[str, Any]:
        """One JSON object; without a verdict it has ``null``."""
        judged = self.judged
        return {
            "experiment": self.saved.experiment_id,
            "title": self.plan.experiment.title,
            "tags": list(self.plan.experiment.tags),
            "seed": self.plan.seed,
            "verdict": judged.verdict if judged else None,
            "because": judged.because if judged else "it was not flown to its end",
            "checks": [asdict(check) for check in judged.checks] if judged else [],
            "arms": [
                {
                    "arm": arm.name,
                    "run_id": arm.run_id,
                    "failure": arm.failure,
                    "measures": {name: measure.shown for name, measure in arm.measures.items()},
                }
                for arm in self.arms
            ],
        }


def judged_again(saved: SavedExperiment) -> FlownExperiment:
    """An experiment as its histories show it, nothing flown."""
    arms = list(saved.flown().values())
    judged = judge_experiment(arms) if saved.is_done(arms) else None
    return FlownExperiment(saved, arms, judged, _CODES[judged.verdict] if judged else UNKNOWN)


def fly_experiment(
    saved: SavedExperiment,
    toxiproxy: Choice,
    say: Callable[[str], None],
    arm_flown: Callable[[FlownArm], None],
    *,
    verbose: bool = False,
) -> FlownExperiment:
    """Flies the arms that have not come to their end yet, and judges all of them.

    The control that is not in its steady state is the last one flown. What each arm prints lies beside the
    plan; ``verbose`` has it on the console instead. Raises ``OSError`` if it cannot be written.
    """
    flight = FlownExperiment(saved)
    plan, before = saved.plan, saved.flown()

    def fly(lab: Airspace) -> int:
        for arm in plan.arms:
            flown = before.get(arm.name)
            if flown is None or flown.failure:
                run_id, began = saved.next_run_id(arm), time.monotonic()
                say(f"{arm.name}: {len(plan.prompts)} episodes")
                log = (
                    None if verbose else ProcessLog(plan.configuration.logs, saved.folder / f"{arm.name}.txt")
                )
                configuration = replace(plan.configuration, settings=arm.settings, prompts=saved.prompts)
                if lab.run(configuration, [f"--run-id={run_id}"], log) == INTERRUPTED:
                    return INTERRUPTED
                flown = flown_arm(plan, arm, run_id)
                say(f"{arm.name}: {time.monotonic() - began:.1f} s")
            flight.arms.append(flown)
            arm_flown(flown)
            if saved.is_done(flight.arms):
                break
        flight.judged = judge_experiment(flight.arms)
        return _CODES[flight.judged.verdict]

    flight.code = in_own_lab(plan.configuration, toxiproxy, say, fly)
    saved.write_verdict(flight.as_json())
    return flight
