"""Flies an experiment: its arms one after the other in one lab, episodes side by side on lanes."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from windtunnel.core.exit_codes import DEVIATED, LAB_FAILED, UNKNOWN
from windtunnel.core.interrupts import INTERRUPTED
from windtunnel.experiments.arms import ExperimentPlan, PlannedArm
from windtunnel.experiments.saved import SavedExperiment
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
                    "run_ids": list(arm.run_ids),
                    "failure": arm.failure,
                    "measures": {name: measure.shown for name, measure in arm.measures.items()},
                }
                for arm in self.arms
            ],
        }


def judged_again(saved: SavedExperiment) -> FlownExperiment:
    """An experiment as its histories show it, nothing flown."""
    arms = [saved.arm_as_flown(arm) for arm in saved.plan.arms if saved.run_ids(arm)]
    done = saved.is_done(arms) and not any(arm.failure for arm in arms)
    judged = judge_experiment(arms) if done else None
    return FlownExperiment(saved, arms, judged, _CODES[judged.verdict] if judged else UNKNOWN)


@dataclass(frozen=True)
class Cockpit:
    """How an experiment is flown. ``workers``: so many episodes side by side, each on a lane.

    ``say`` takes sentences for people; ``verbose`` has the runs print on the console, not into files.
    """

    toxiproxy: Choice
    say: Callable[[str], None]
    arm_flown: Callable[[FlownArm], None]
    workers: int = 1
    verbose: bool = False


def fly_experiment(saved: SavedExperiment, how: Cockpit) -> FlownExperiment:
    """Flies the episodes that have not come to their end yet, arm by arm, and judges all of them.

    The control that is not in its steady state is the last arm flown. Raises ``OSError`` if what it leaves
    cannot be written.
    """
    flight = FlownExperiment(saved)
    lanes = min(how.workers, len(saved.plan.prompts))

    def fly(lab: Airspace) -> int:
        for arm in saved.plan.arms:
            began = time.monotonic()
            if _fly_arm(lab, saved, arm, how, lanes) == INTERRUPTED:
                return INTERRUPTED
            flight.arms.append(saved.arm_as_flown(arm))
            how.arm_flown(flight.arms[-1])
            how.say(f"{arm.name}: {time.monotonic() - began:.1f} s")
            if saved.is_done(flight.arms):
                break
        flight.judged = judge_experiment(flight.arms)
        return _CODES[flight.judged.verdict]

    flight.code = in_own_lab(saved.plan.configuration, how.toxiproxy, how.say, fly, lanes)
    saved.write_verdict(flight.as_json())
    return flight


def _fly_arm(lab: Airspace, saved: SavedExperiment, arm: PlannedArm, how: Cockpit, lanes: int) -> int:
    """Deals what is left of the arm out to the lanes, a run each; the gravest of their exit codes."""
    plan, flown = saved.plan, saved.history_of(arm).flown
    left = [prompt for prompt in plan.prompts if prompt.key not in flown]
    hands = [left[lane::lanes] for lane in range(lanes) if left[lane::lanes]]
    if not hands:
        return 0
    how.say(f"{arm.name}: {len(left)} episodes" + (f", {len(hands)} at a time" if len(hands) > 1 else ""))
    run_ids = saved.next_run_ids(arm, len(hands))

    def fly_hand(lane: int) -> int:
        prompts = saved.write_prompts(hands[lane], run_ids[lane])
        log = ProcessLog(plan.configuration.logs, saved.folder / f"{run_ids[lane]}.txt")
        configuration = replace(plan.configuration, settings=arm.settings, prompts=prompts)
        words = [f"--run-id={run_ids[lane]}"]
        return lab.run(configuration, words, None if how.verbose else log, lane)

    with ThreadPoolExecutor(len(hands)) as pool:
        return max(pool.map(fly_hand, range(len(hands))))
