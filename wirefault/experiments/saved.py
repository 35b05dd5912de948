"""An experiment on disk: its plan, so that it can be resumed and repeated, and its verdict.

``logs/experiments/ID`` has ``plan.json``, ``prompts.json``, the output of each arm, ``verdict.json``, and in
``facts`` the facts of its runs. The runs of its arms are in ``logs/runs``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from wirefault.core.errors import InputError
from wirefault.core.files import write_whole
from wirefault.experiments.arms import ArmFacts, ArmHistory, put_together, read_arm
from wirefault.experiments.assertions.episode_view import EpisodeView
from wirefault.experiments.assertions.on_arm import Asserted, assert_on_arm, needs_all_views
from wirefault.experiments.assertions.registry import parse_assertion
from wirefault.experiments.experiment import CONTROL, Experiment
from wirefault.experiments.facts import RunFacts, read_facts, views_in
from wirefault.experiments.index import PLAN, VERDICT, latest_id, saved_ids
from wirefault.experiments.measures import measures_of
from wirefault.experiments.plan import PLAIN_RUN, ExperimentPlan, PlannedArm, dump_prompts
from wirefault.experiments.repeated import judged_by_control, with_differences
from wirefault.experiments.verdict import ArmResult, ExperimentEnd, judge_experiment
from wirefault.history.reader import read_run
from wirefault.judging.oracle.expect import expect_check
from wirefault.lab.process import ProcessLog
from wirefault.lab.toxiproxy import VERIFIED
from wirefault.settings.configuration import load_configuration
from wirefault.wiring.prompts import Prompt, load_prompts
from wirefault.wiring.wiring import dumped_wiring, lab_wiring

_PROMPTS, _END, _FACTS = "prompts.json", "end.json", "facts"


@dataclass(frozen=True)
class SavedExperiment:
    """``folder`` is ``logs/experiments/ID``. ``retry_invalid`` is how often an invalid episode is run
    again.
    """

    folder: Path
    plan: ExperimentPlan
    retry_invalid: int = 0

    @property
    def experiment_id(self) -> str:
        return self.folder.name

    @property
    def prompts_file(self) -> Path:
        """All prompts of an arm, with their keys."""
        return self.folder / _PROMPTS

    def run_ids(self, arm: PlannedArm) -> list[str]:
        """The existing runs of that arm, in their order."""
        first, runs = self._first_run_id(arm), self.plan.configuration.logs / "runs"
        again = [run for run in runs.glob(f"{first}.*") if run.name[len(first) + 1 :].isdecimal()]
        again.sort(key=lambda run: int(run.name[len(first) + 1 :]))
        return [run.name for run in (runs / first, *again) if run.is_dir()]

    def next_run_ids(self, arm: PlannedArm, count: int) -> list[str]:
        """Ids for the next runs of that arm.

        A run killed before it wrote anything has only its prompts file, but its id is used.
        """
        first = self._first_run_id(arm)
        used_ids = self._begun(arm) | set(self.run_ids(arm))
        ends = [run_id[len(first) + 1 :] for run_id in used_ids]
        before = max((int(end) if end.isdecimal() else 1 for end in ends), default=0)
        numbers = range(before + 1, before + count + 1)
        return [first if number == 1 else f"{first}.{number}" for number in numbers]

    def history_of(self, arm: PlannedArm) -> ArmHistory:
        """All events of its runs until now."""
        return read_arm(self.plan.configuration.logs, self.run_ids(arm), len(self.plan.prompts))

    def facts_of(self, arm: PlannedArm) -> ArmFacts:
        """The facts of its runs until now; an arm with faults is compared with the control."""
        facts, controls = self._recorded_facts(arm), [a for a in self.plan.arms if a.is_control]
        if arm.is_control or not controls:
            return facts
        calm = [self._recorded_facts(control) for control in controls[:2]]
        return with_differences(judged_by_control(facts, *calm), calm)

    def _recorded_facts(self, arm: PlannedArm) -> ArmFacts:
        recorded = self.run_ids(arm)
        lost = sorted(self._begun(arm) - set(recorded))
        runs = [self.facts_of_run(arm, run_id) for run_id in recorded]
        return put_together([*runs, *map(self._lost_run_facts, lost)], len(self.plan.prompts))

    def facts_of_run(self, arm: PlannedArm, run_id: str) -> RunFacts:
        """The facts of one of its runs."""
        logs = self.plan.configuration.logs
        return read_facts(logs, run_id, arm.assertions, self.folder / _FACTS)

    def _lost_run_facts(self, run_id: str) -> RunFacts:
        """Facts of a run without history: the last line of its output."""
        printed = ProcessLog(self.plan.configuration.logs, self.folder / f"{run_id}.txt")
        last_line = printed.last_lines(1) or "and said nothing"
        return RunFacts(
            run_id, problem=f"the run {run_id} has left no history: {last_line}", is_readable=False
        )

    def left_of(self, arm: PlannedArm) -> list[Prompt]:
        """The prompts that are still to run, including invalid ones to be run again."""
        facts = self.facts_of(arm)
        completed = {episode.episode for episode in facts.episodes}
        return [
            prompt
            for prompt in self.plan.prompts
            if prompt.key not in completed or 0 < facts.invalid.get(prompt.key, 0) <= self.retry_invalid
        ]

    def arm_result(self, arm: PlannedArm) -> ArmResult:
        """The result of its runs."""
        facts = self.facts_of(arm)
        return ArmResult(
            arm.name,
            tuple(self.run_ids(arm)),
            arm.hypothesis,
            measures_of(facts) if facts.episodes else {},
            facts.failure,
            self._asserted(arm, facts) if facts.episodes else (),
            facts.missing,
            {episode.episode: episode.why for episode in facts.episodes if episode.outcome == "invalid"},
            tuple(map(str, facts.superseded)),
            tuple(finding for episode in facts.valid.episodes for finding in episode.differences),
        )

    def rollback_by_histories(self) -> str:
        """``verified`` if each run saw all of its toxics gone; else which run did not."""
        of_runs = ((arm, run_id) for arm in self.plan.arms for run_id in self.run_ids(arm))
        for arm, run_id in of_runs:
            facts = self.facts_of_run(arm, run_id)
            if not facts.is_readable:
                return f"not verified: {facts.problem}"
            if facts.toxics_left != 0:
                return f"not verified: {run_id} did not see all of its toxics gone"
        return VERIFIED

    def is_done(self, completed: Sequence[ArmResult]) -> bool:
        """Whether no arm is left: all were run, or the control has no steady state."""
        if len(completed) == len(self.plan.arms):
            return True
        return [arm.name for arm in completed] == [CONTROL] and judge_experiment(completed).verdict != "held"

    def write_prompts(self, prompts: Sequence[Prompt], run_id: str) -> Path:
        """Write a prompts file for one run, named after it. Raises ``OSError``."""
        path = self.folder / f"{run_id}.json"
        path.write_text(dump_prompts(prompts), encoding="utf-8")
        return path

    @property
    def end(self) -> ExperimentEnd:
        """How the last run ended. Raises ``InputError`` if that cannot be read."""
        path = self.folder / _END
        try:
            return ExperimentEnd(**json.loads(path.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return ExperimentEnd()
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"{path}: cannot be read: {error}") from None

    def note_end(self, **noted: str) -> None:
        """Update fields of ``ExperimentEnd``. Raises ``OSError``."""
        _write_json(self.folder / _END, asdict(replace(self.end, **noted)))

    def forget_end(self) -> None:
        """Delete the end: another run begins."""
        (self.folder / _END).unlink(missing_ok=True)

    def write_verdict(self, verdict: Mapping[str, Any]) -> None:
        _write_json(self.folder / VERDICT, verdict)

    def _asserted(self, arm: PlannedArm, facts: ArmFacts) -> tuple[Asserted, ...]:
        """The results of the arm's assertions."""
        all_at_once = any(needs_all_views(parse_assertion(entry)) for entry in arm.assertions)
        views = list(self._views_of(facts)) if all_at_once else []
        return tuple(
            assert_on_arm(
                entry,
                {episode.episode: episode.asserted[place] for episode in facts.episodes},
                facts.planned,
                views,
            )
            for place, entry in enumerate(arm.assertions)
        )

    def _views_of(self, facts: ArmFacts) -> Iterator[EpisodeView]:
        for run_id in dict.fromkeys(facts.source.values()):
            events = read_run(self.plan.configuration.logs, run_id)
            for view in views_in(run_id, events):
                if facts.source.get(view.episode) == run_id:
                    yield view

    def _begun(self, arm: PlannedArm) -> set[str]:
        """The ids of the runs for which prompts were written."""
        first = self._first_run_id(arm)
        return {path.stem for path in self.folder.glob(f"{first}*.json")}

    def _first_run_id(self, arm: PlannedArm) -> str:
        if self.plan.is_plain_run:
            return self.experiment_id
        return f"{self.experiment_id}-{self.plan.arms.index(arm) + 1}-{arm.name}"


def save(plan: ExperimentPlan, experiment_id: str) -> SavedExperiment:
    """Write the plan. Raises ``OSError``."""
    saved = SavedExperiment(plan.configuration.logs / "experiments" / experiment_id, plan)
    saved.folder.mkdir(parents=True)
    (saved.folder / _PROMPTS).write_text(dump_prompts(plan.prompts), encoding="utf-8")
    arms = [
        {
            "arm": arm.name,
            "settings": arm.settings.model_dump(),
            "hypothesis": arm.hypothesis,
            "assertions": arm.assertions,
        }
        for arm in plan.arms
    ]
    experiment = plan.experiment.model_dump(mode="json", exclude_unset=True)
    wiring = plan.configuration.wiring.dump()
    planned = {"experiment": experiment, "wiring": wiring, "arms": arms, "subject": plan.subject}
    _write_json(saved.folder / PLAN, planned)
    return saved


def load_saved(logs: Path, experiment_id: str, environ: Mapping[str, str]) -> SavedExperiment:
    """Load a saved experiment; ``latest`` is the newest. Raises ``InputError`` if missing or unreadable."""
    known = saved_ids(logs)
    if experiment_id == "latest":
        experiment_id = latest_id(logs)
    if experiment_id not in known:
        raise InputError(f"{logs / 'experiments'}: unknown experiment {experiment_id}")
    folder = logs / "experiments" / experiment_id
    try:
        data = json.loads((folder / PLAN).read_text(encoding="utf-8"))
        wiring = dumped_wiring(data["wiring"]) if data["wiring"] else lab_wiring()
        configured = [load_configuration(environ, arm["settings"], wiring) for arm in data["arms"]]
        arms = [
            PlannedArm(
                arm["arm"],
                configuration.settings,
                tuple(arm["hypothesis"]),
                tuple(arm.get("assertions", ())),
            )
            for arm, configuration in zip(data["arms"], configured, strict=True)
        ]
        is_plain_run = [arm.name for arm in arms] == [PLAIN_RUN]  # a file cannot have this arm
        data_of_experiment = data["experiment"]
        experiment = (
            Experiment.model_construct(**data_of_experiment)
            if is_plain_run
            else Experiment.model_validate(data_of_experiment)
        )
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder / PLAN}: cannot be read: {error}") from None
    prompts = load_prompts(folder / _PROMPTS, check_expect=expect_check(wiring.links))
    subject = str(data.get("subject", ""))
    plan = ExperimentPlan(experiment, configured[0], tuple(prompts.entries), tuple(arms), subject)
    return SavedExperiment(folder, plan)


def _write_json(path: Path, value: Any) -> None:
    """Write atomically: a killed process leaves the old file."""
    write_whole(path, (json.dumps(value, ensure_ascii=False, indent=1) + "\n").encode())
