"""Flies an experiment: its arms one after the other in one lab, each a run of its own with a history."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from windtunnel.core.exit_codes import DEVIATED, LAB_FAILED, UNKNOWN
from windtunnel.core.interrupts import INTERRUPTED
from windtunnel.experiments.arms import ExperimentPlan, PlannedArm, dump_prompts
from windtunnel.experiments.experiment import CONTROL
from windtunnel.experiments.measures import measures_of
from windtunnel.experiments.verdict import ExperimentVerdict, FlownArm, Judged, judge_experiment
from windtunnel.history.reader import HistoryError, read_history
from windtunnel.judging.summary import summarise
from windtunnel.lab.demo import Airspace, in_own_lab
from windtunnel.lab.process import ProcessLog
from windtunnel.lab.toxiproxy import Choice

_CODES: dict[ExperimentVerdict, int] = {"held": 0, "deviated": DEVIATED, "unknown": UNKNOWN}


@dataclass
class FlownExperiment:
    """An experiment that was flown. ``judged`` is None where it came to no verdict; ``code`` to end with."""

    experiment_id: str
    folder: Path
    plan: ExperimentPlan
    arms: list[FlownArm] = field(default_factory=list)
    judged: Judged | None = None
    code: int = LAB_FAILED

    def as_json(self) -> dict[str, Any]:
        """One JSON object; without a verdict it has ``null``."""
        judged = self.judged
        return {
            "experiment": self.experiment_id,
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


def fly_experiment(
    plan: ExperimentPlan,
    experiment_id: str,
    toxiproxy: Choice,
    say: Callable[[str], None],
    arm_flown: Callable[[FlownArm], None],
    *,
    verbose: bool = False,
) -> FlownExperiment:
    """Flies all arms, or the control alone if that is not in its steady state, and judges.

    What was planned, what each arm printed and the verdict lie in ``logs/experiments/ID``; ``verbose`` has
    the arms print on the console instead. Raises ``OSError`` if that folder cannot be written.
    """
    folder = plan.configuration.logs / "experiments" / experiment_id
    folder.mkdir(parents=True)
    flight = FlownExperiment(experiment_id, folder, plan)
    prompts = folder / "prompts.json"
    prompts.write_text(dump_prompts(plan.prompts), encoding="utf-8")
    _write_json(folder / "plan.json", _planned(plan))

    def fly(lab: Airspace) -> int:
        for number, arm in enumerate(plan.arms, start=1):
            say(f"{arm.name}: {len(plan.prompts)} episodes")
            run_id = f"{experiment_id}-{number}-{arm.name}"
            configuration = replace(plan.configuration, settings=arm.settings, prompts=prompts)
            log = None if verbose else ProcessLog(configuration.logs, folder / f"{arm.name}.txt")
            began = time.monotonic()
            code = lab.run(configuration, [f"--run-id={run_id}"], log)
            if code == INTERRUPTED:
                return INTERRUPTED
            flown = _flown(plan, arm, run_id, code, log)
            flight.arms.append(flown)
            arm_flown(flown)
            say(f"{arm.name}: {time.monotonic() - began:.1f} s")
            if arm.name == CONTROL and judge_experiment([flown]).verdict != "held":
                break
        flight.judged = judge_experiment(flight.arms)
        return _CODES[flight.judged.verdict]

    flight.code = in_own_lab(plan.configuration, toxiproxy, say, fly)
    _write_json(folder / "verdict.json", flight.as_json())
    return flight


def _planned(plan: ExperimentPlan) -> dict[str, Any]:
    arms = [{"arm": arm.name, "settings": arm.settings.model_dump()} for arm in plan.arms]
    return {"experiment": plan.experiment.model_dump(mode="json"), "seed": plan.seed, "arms": arms}


def _flown(plan: ExperimentPlan, arm: PlannedArm, run_id: str, code: int, log: ProcessLog | None) -> FlownArm:
    """What its history shows."""
    where = f"; what it printed: {log.path}" if log else ""
    failure = f"its run ended with exit code {code}{where}" if code else ""
    try:
        events = read_history(plan.configuration.logs, run_id).events()
        measures = measures_of(summarise(events), events)
    except (HistoryError, ValueError, OSError) as error:
        measures, failure = {}, failure or f"its history cannot be read: {error}{where}"
    return FlownArm(arm.name, run_id, arm.hypothesis, measures, failure)


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
