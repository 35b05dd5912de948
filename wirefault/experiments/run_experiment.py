"""Run an experiment arm by arm and judge it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import structs, to_builtins

from wirefault.core.errors import DEVIATED, LAB_FAILED, UNKNOWN, InputError
from wirefault.core.identity import new_run_id
from wirefault.core.redaction import Redaction
from wirefault.core.signing import take_key_variable
from wirefault.experiments.effects import FaultEffect, effects_in
from wirefault.experiments.engine import Engine, LocalEngine, RunControl
from wirefault.experiments.experiment import Experiment
from wirefault.experiments.experiment_file import python_experiment
from wirefault.experiments.index import early_word
from wirefault.experiments.measure import Number
from wirefault.experiments.plan import ExperimentPlan
from wirefault.experiments.plan_experiment import plan_experiment
from wirefault.experiments.recorded import findings_by_arm, harm_beside_verdict
from wirefault.experiments.saved import SavedExperiment, save
from wirefault.experiments.strategy import carry_out, strategy_of
from wirefault.experiments.surface import LevelAnswer, level_answers, level_rows, surface_cells
from wirefault.experiments.verdict import (
    ArmResult,
    ExperimentVerdict,
    Judged,
    conclude,
    judge_experiment,
    unwatched_bounds,
)
from wirefault.history.judged_events import Finding
from wirefault.history.reader import HistoryError
from wirefault.judging.ending import NO_VERDICT, FailOn, early_word_of, run_ending, run_word
from wirefault.judging.summary import Summary, summary_of
from wirefault.lab.extra import require_packages
from wirefault.lab.process import print_to_stderr
from wirefault.lab.toxiproxy import choose_toxiproxy

_CODES: dict[ExperimentVerdict, int] = {
    "held": 0,
    "deviated": DEVIATED,
    "unknown": UNKNOWN,
    "aborted": UNKNOWN,
}


@dataclass
class ExperimentResult:
    """The arms that were run, their verdict and the exit ``code``, for a plain run without its findings.

    ``judged`` is None without a verdict. ``rollback`` is ``verified``, or why toxics may be left. ``timing``
    is empty if nothing was run.
    """

    saved: SavedExperiment
    arms: list[ArmResult] = field(default_factory=list)
    judged: Judged | None = None
    code: int = LAB_FAILED
    rollback: str = ""
    timing: Mapping[str, float] = field(default_factory=dict)

    @cached_property
    def early(self) -> str:
        """The word of one without its end, see ``judging.ending``; empty for others."""
        return early_word(self.saved.logs, self.saved.experiment_id)

    @cached_property
    def is_whole(self) -> bool:
        """Whether nothing is left to run; else it can be resumed."""
        return strategy_of(self.plan).next(self.saved) is None

    @property
    def can_be_resumed(self) -> bool:
        """Whether it ended early; an aborted one cannot be resumed."""
        if self.judged is None:
            return bool(self.code) or not self.plan.is_plain_run
        return not self.is_whole and self.judged.verdict != "aborted"

    @property
    def verdict(self) -> ExperimentVerdict | None:
        """``held``, ``deviated``, ``unknown`` or ``aborted``; None without a verdict."""
        return self.judged.verdict if self.judged else None

    @property
    def word(self) -> str:
        """The word of all readers: the verdict; without a hypothesis, what was found; or why it has none."""
        if self.judged is not None:
            return self.judged.verdict
        return self.early or (run_word(self.run_summary) if self.run_summary else NO_VERDICT)

    def ending(self, fail_on: FailOn = "risky") -> int:
        """The exit code; without a hypothesis, what was found decides, see ``judging.ending``."""
        if self.code not in (0, UNKNOWN) or self.run_summary is None:
            return self.code
        return run_ending(self.run_summary, fail_on) or self.code

    @cached_property
    def run_summary(self) -> Summary | None:
        """The summary of a run without a hypothesis; None if it did not begin. Only after its end."""
        if not self.plan.is_plain_run:
            return None
        arm = self.plan.arms[0]
        if len(run_ids := self.saved.run_ids(arm)) == 1:
            with suppress(HistoryError, ValueError, OSError):  # then what can be read of it counts
                judgement = self.saved.facts.judgement(run_ids[0])
                if judgement.finished is not None and judgement.finished.completed:
                    return summary_of(judgement)
        history = self.saved.history_of(arm)
        return summary_of(history.judged()) if history.identified else None

    @cached_property
    def findings(self) -> Mapping[str, Sequence[Finding]]:
        """By arm, the gravest first. Only after its end."""
        return findings_by_arm(self.saved)

    @property
    def harm_beside(self) -> Sequence[str]:
        """Lines about harm beside a hypothesis that held, which does not ask about it."""
        return list(harm_beside_verdict(self.findings)) if self.verdict == "held" else []

    @property
    def effects(self) -> list[FaultEffect]:
        """The effects of the faults in the arms that were run."""
        completed = {arm.name for arm in self.arms}
        return [effect for effect in effects_in(self.saved) if effect.arm in completed]

    @property
    def level_answers(self) -> list[LevelAnswer]:
        """How far each arm with levels held; empty without a verdict."""
        return level_answers(self.plan, self.judged) if self.judged else []

    @property
    def plan(self) -> ExperimentPlan:
        return self.saved.plan

    def as_json(self) -> dict[str, Any]:
        """One JSON object; the verdict may be ``null``."""
        judged = self.judged
        early = "" if judged else self.early
        without = f"{early}: it did not complete" if early else "it has no hypothesis"
        return {
            "experiment": self.saved.experiment_id,
            "title": Redaction(self.plan.configuration.environ).text(self.plan.experiment.title),
            "description": self.plan.experiment.description,
            "tags": list(self.plan.experiment.tags),
            "seed": self.plan.seed,
            "confidence": self.plan.terms.confidence,
            "verdict": judged.verdict if judged else self.word if self.plan.is_plain_run else None,
            "because": judged.because if judged else without,
            "harm_beside": self.harm_beside,
            "rollback": self.rollback or None,
            "timing": dict(self.timing) or None,
            "checks": to_builtins(judged.checks, enc_hook=Number.as_json) if judged else [],
            "arms": [
                {
                    "arm": arm.name,
                    "run_ids": list(arm.run_ids),
                    "failure": arm.failure,
                    "invalid": dict(arm.invalid),
                    "reruns": list(arm.reruns),
                    "differences": [finding.as_json() for finding in arm.differences],
                    "findings": [each.as_json() for each in self.findings.get(arm.name, ())],
                    "claims": asdict(arm.claims),
                    "measures": {name: measure.as_json() for name, measure in arm.measures.items()},
                    "resilience": arm.resilience.as_json() if arm.resilience else None,
                }
                for arm in self.arms
            ],
            "effects": [asdict(effect) for effect in self.effects],
            "surface": [asdict(cell) for cell in surface_cells(self.plan, self.arms)],
            "levels": level_rows(self.plan, self.arms),
            "level_answers": [asdict(each) for each in self.level_answers],
            "not_reproducible_because": obstacles_in(self),
        }


def judged_again(saved: SavedExperiment) -> ExperimentResult:
    """Judge an experiment by its histories, without running anything."""
    arms = [saved.arm_result(arm) for arm in saved.plan.arms if saved.run_ids(arm)]
    result = ExperimentResult(saved, arms, code=UNKNOWN)
    if saved.plan.is_plain_run:
        result.code = 0 if result.is_whole and not any(arm.failure for arm in arms) else UNKNOWN
    elif arms and (saved.end.aborted or saved.end.limited or result.is_whole):
        _judge(result)
    return result


def run(
    experiment: Experiment,
    *,
    folder: Path | str = ".",
    workers: int = 1,
    toxiproxy: str = "auto",
    say: Callable[[str], None] = print_to_stderr,
) -> ExperimentResult:
    """Run the experiment in its own lab and judge it. Call it in the main thread.

    Paths in the experiment are relative to ``folder``; ``workers`` episodes run at once; ``toxiproxy`` is
    ``auto``, ``embedded`` or a server's URL; ``say`` receives progress messages. Histories and verdict are
    saved under ``logs``, as by ``wirefault run``. Raises ``InputError`` for an experiment that cannot run,
    ``NotInstalled`` if it needs packages of ``wirefault[lab]`` that are missing.
    """
    take_key_variable()
    plan = plan_experiment(python_experiment(experiment, Path(folder)), os.environ)
    require_packages(plan.configuration.wiring, plan.subject)
    choice = choose_toxiproxy(toxiproxy, plan.configuration.environ)
    saved = save(plan, new_run_id())
    return run_experiment(saved, RunControl(choice, say, workers), LocalEngine())


def run_experiment(saved: SavedExperiment, how: RunControl, engine: Engine) -> ExperimentResult:
    """Run the remaining episodes, arm by arm, and judge all of them.

    A control without its steady state is the last arm. Raises ``OSError`` if the result cannot be written and
    ``InputError`` for an aborted experiment.
    """
    if aborted := saved.end.aborted:
        raise InputError(
            f"{saved.experiment_id} was aborted ({aborted}) and cannot be resumed;"
            f" wirefault run --again {saved.experiment_id} runs it from the beginning"
        )
    progress = carry_out(saved, strategy_of(saved.plan), how, engine)
    ends = saved.plan.sequential is not None and progress.code == 0
    arms = [
        saved.arm_result(arm)
        for arm in saved.plan.arms
        if arm.name in progress.arms or (ends and saved.run_ids(arm))
    ]
    result = ExperimentResult(saved, arms, code=progress.code, timing=progress.timing)
    if result.code == 0 and not saved.plan.is_plain_run:
        _judge(result)
    ended = result.judged is not None or (result.run_summary is not None and result.run_summary.completed)
    result.early = "" if ended else early_word_of(result.code)
    try:
        worst = result.run_summary.worst if result.run_summary else saved.worst_finding()
        saved.write_verdict(result.as_json(), worst)
    except OSError:
        if result.code != LAB_FAILED:  # else the run or the lab has said why
            raise
    return result


def _judge(result: ExperimentResult) -> None:
    """Set verdict, exit code and rollback."""
    saved, end = result.saved, result.saved.end
    # the control after the faults may decide about writes of the arms before it
    judged = {arm.name for arm in result.arms}
    result.arms = [saved.arm_result(arm) for arm in saved.plan.arms if arm.name in judged]
    if result.is_whole:
        end = structs.replace(end, limited="")  # reached when nothing was left to run
    result.rollback = end.rollback or saved.rollback_by_histories()
    experiment = result.plan.experiment
    unwatched = unwatched_bounds(experiment.safety, experiment.limits, result.arms)
    judged_arms = judge_experiment(result.arms, result.plan.terms)
    result.judged = conclude(judged_arms, end, result.rollback, unwatched)
    result.code = _CODES[result.judged.verdict]


def obstacles_in(result: ExperimentResult) -> dict[str, list[str]]:
    """For each arm its dependencies on order, on the clock or on a foreign model; arms without any are left
    out.

    Unreadable runs count in the verdict, not here.
    """
    saved = result.saved
    reasons = {
        arm.name: [
            reason for run_id in saved.run_ids(arm) for reason in saved.facts_of_run(arm, run_id).decided_by
        ]
        for arm in saved.plan.arms
    }
    if not result.is_whole:
        reasons["experiment"] = ["not everything was run"]
    return {place: list(dict.fromkeys(of_place)) for place, of_place in reasons.items() if of_place}
