"""An experiment on the disk: what was planned, so that it can be gone on with and repeated, and its verdict.

``logs/experiments/ID`` holds ``plan.json``, ``prompts.json``, what each arm printed, and ``verdict.json``.
The runs of its arms lie among the others, in ``logs/runs``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from windtunnel.core.user_errors import InputError
from windtunnel.experiments.arm_history import ArmHistory, read_arm
from windtunnel.experiments.arms import ExperimentPlan, PlannedArm, dump_prompts
from windtunnel.experiments.experiment import CONTROL, Experiment
from windtunnel.experiments.measures import measures_of
from windtunnel.experiments.verdict import FlownArm, judge_experiment
from windtunnel.judging.prompts import Prompt, load_prompts
from windtunnel.judging.summary import summarise
from windtunnel.links.wiring import lab_wiring, wiring_of
from windtunnel.settings.configuration import load_configuration

_PLAN, _PROMPTS, _VERDICT = "plan.json", "prompts.json", "verdict.json"


@dataclass(frozen=True)
class SavedExperiment:
    """``folder`` is ``logs/experiments/ID``."""

    folder: Path
    plan: ExperimentPlan

    @property
    def experiment_id(self) -> str:
        return self.folder.name

    def run_ids(self, arm: PlannedArm) -> list[str]:
        """Of the runs that have flown some of that arm, in their order."""
        first, runs = self._first_run_id(arm), self.plan.configuration.logs / "runs"
        again = [run for run in runs.glob(f"{first}.*") if run.name[len(first) + 1 :].isdecimal()]
        again.sort(key=lambda run: int(run.name[len(first) + 1 :]))
        return [run.name for run in (runs / first, *again) if run.is_dir()]

    def next_run_ids(self, arm: PlannedArm, count: int) -> list[str]:
        """Of so many runs of that arm that are still to be flown."""
        first, before = self._first_run_id(arm), len(self.run_ids(arm))
        numbers = range(before + 1, before + count + 1)
        return [first if number == 1 else f"{first}.{number}" for number in numbers]

    def history_of(self, arm: PlannedArm) -> ArmHistory:
        """What its runs have left until now."""
        return read_arm(self.plan.configuration.logs, self.run_ids(arm), len(self.plan.prompts))

    def arm_as_flown(self, arm: PlannedArm) -> FlownArm:
        """What its runs show."""
        history, runs = self.history_of(arm), tuple(self.run_ids(arm))
        if not history.events:
            return FlownArm(arm.name, runs, arm.hypothesis, {}, "; ".join(history.problems))
        summary = summarise(history.events)
        missing = len(self.plan.prompts) - len(history.flown)
        failure = summary.lab_failed_because
        if missing:
            failure = f"{missing} episodes were not flown: {'; '.join(history.problems)}"
        return FlownArm(arm.name, runs, arm.hypothesis, measures_of(summary, history.events), failure)

    def is_done(self, flown: Sequence[FlownArm]) -> bool:
        """Whether no other arm is to be flown: all were, or the control is not in its steady state."""
        if len(flown) == len(self.plan.arms):
            return True
        return [arm.name for arm in flown] == [CONTROL] and judge_experiment(flown).verdict != "held"

    def write_prompts(self, prompts: Sequence[Prompt], run_id: str) -> Path:
        """A prompts file for one run, named after it. Raises ``OSError``."""
        path = self.folder / f"{run_id}.json"
        path.write_text(dump_prompts(prompts), encoding="utf-8")
        return path

    def write_verdict(self, verdict: Mapping[str, Any]) -> None:
        _write_json(self.folder / _VERDICT, verdict)

    def _first_run_id(self, arm: PlannedArm) -> str:
        return f"{self.experiment_id}-{self.plan.arms.index(arm) + 1}-{arm.name}"


def save(plan: ExperimentPlan, experiment_id: str) -> SavedExperiment:
    """Writes what is planned. Raises ``OSError``."""
    saved = SavedExperiment(plan.configuration.logs / "experiments" / experiment_id, plan)
    saved.folder.mkdir(parents=True)
    (saved.folder / _PROMPTS).write_text(dump_prompts(plan.prompts), encoding="utf-8")
    arms = [
        {"arm": arm.name, "settings": arm.settings.model_dump(), "hypothesis": arm.hypothesis}
        for arm in plan.arms
    ]
    experiment = plan.experiment.model_dump(mode="json", exclude_unset=True)
    wiring = plan.configuration.wiring.dump()
    _write_json(saved.folder / _PLAN, {"experiment": experiment, "wiring": wiring, "arms": arms})
    return saved


def load_saved(logs: Path, experiment_id: str, environ: Mapping[str, str]) -> SavedExperiment:
    """``latest`` is the last one begun. Raises ``InputError`` if there is none, or it cannot be read."""
    known = saved_ids(logs)
    if experiment_id == "latest" and known:
        experiment_id = known[-1]
    if experiment_id not in known:
        raise InputError(f"{logs / 'experiments'}: there is no experiment {experiment_id}")
    folder = logs / "experiments" / experiment_id
    try:
        data = json.loads((folder / _PLAN).read_text(encoding="utf-8"))
        wiring = wiring_of(data["wiring"]) if data["wiring"] else lab_wiring()
        configured = [load_configuration(environ, arm["settings"], wiring) for arm in data["arms"]]
        arms = [
            PlannedArm(arm["arm"], configuration.settings, tuple(arm["hypothesis"]))
            for arm, configuration in zip(data["arms"], configured, strict=True)
        ]
        experiment = Experiment.model_validate(data["experiment"])
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder / _PLAN}: cannot be read: {error}") from None
    prompts = load_prompts(folder / _PROMPTS, links=wiring.links)
    return SavedExperiment(
        folder, ExperimentPlan(experiment, configured[0], tuple(prompts.entries), tuple(arms))
    )


def saved_ids(logs: Path) -> list[str]:
    """Of all experiments there, in the order in which they were begun."""
    return sorted(path.parent.name for path in (logs / "experiments").glob(f"*/{_PLAN}"))


def shown_of(logs: Path, experiment_id: str) -> tuple[str, str]:
    """Its verdict and its title, as they were written; ``none yet`` for one that came to no verdict."""
    folder = logs / "experiments" / experiment_id
    try:
        title = str(json.loads((folder / _PLAN).read_text(encoding="utf-8"))["experiment"]["title"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return "unreadable", f"{_PLAN}: {error}"
    try:
        verdict = json.loads((folder / _VERDICT).read_text(encoding="utf-8"))["verdict"]
    except (OSError, ValueError, KeyError, TypeError):  # it was killed before it wrote, or while it did
        verdict = None
    return str(verdict or "none yet"), title


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
