"""An experiment on disk: its plan, so that it can be resumed and repeated, and its verdict.

``logs/experiments/ID`` has ``plan.json``, ``prompts.json``, the output of each arm, ``verdict.json``, and in
``facts`` the facts of its runs. The runs of its arms are in ``logs/runs``.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from msgspec import convert, structs

from wirefault.core.errors import InputError
from wirefault.core.files import names_in, remove_shared, replace_shared
from wirefault.experiments.arms import ArmFacts, ArmHistory, put_together, read_arm
from wirefault.experiments.assertions.on_arm import Asserted, assert_on_arm, needs_all_views
from wirefault.experiments.assertions.registry import parse_assertion
from wirefault.experiments.episode_view import EpisodeView, episode_views
from wirefault.experiments.evidence import Evidence, evidence_of, latest_id, remove_signature, sign_recording
from wirefault.experiments.experiment import CONTROL
from wirefault.experiments.facts import RunFacts, planned_faults
from wirefault.experiments.facts_store import FactsStore
from wirefault.experiments.figures import against_control, measures_of
from wirefault.experiments.hypothesis import parse_statements
from wirefault.experiments.index import (
    AUDIT,
    END,
    PLAN,
    VERDICT,
    has_begun,
    read_document,
    run_names,
    saved_ids,
)
from wirefault.experiments.measure import Measure
from wirefault.experiments.plan import ExperimentPlan, PlannedArm
from wirefault.experiments.plan_files import json_bytes, plan_code, plan_files, prompts_name, read_plan
from wirefault.experiments.planned_prompts import dump_prompts
from wirefault.experiments.repeated import (
    asserted_by_control,
    by_control,
    judged_by_control,
    rates_of,
    waits_for_control,
    with_differences,
)
from wirefault.experiments.resilience import Resilience
from wirefault.experiments.sequential import Decision, SequentialState, follow
from wirefault.experiments.verdict import ArmResult, ExperimentEnd
from wirefault.judging.findings.finding import worst_finding
from wirefault.judging.judge import ByControl
from wirefault.lab.process import ProcessLog
from wirefault.toxiproxy.planned import VERIFIED
from wirefault.wiring.prompts import Prompt

_FACTS = "facts"
_NEW = Evidence("unfinished", is_own=True)


@dataclass
class _Looks:
    """The last state of an experiment that runs until its claims are decided."""

    state: SequentialState | None = None


@dataclass(frozen=True)
class SavedExperiment:
    """``folder`` is ``logs/experiments/ID``. ``retry_invalid`` is how often an invalid episode is run
    again.
    """

    folder: Path
    plan: ExperimentPlan
    facts: FactsStore = field(compare=False)
    evidence: Evidence = _NEW
    """The state of its files when it was saved or loaded."""
    retry_invalid: int = 0
    extent: int | None = None
    """The episodes of each arm that are run until now; all without one."""
    _looks: _Looks = field(default_factory=_Looks, compare=False, repr=False)

    def with_arms(
        self,
        arms: Sequence[PlannedArm],
        search: Mapping[str, Any] | None = None,
        prompts: Sequence[Prompt] | None = None,
    ) -> SavedExperiment:
        """The experiment with these arms, new ones last; the others replace what it has, unless None."""
        by_name = {arm.name: arm for arm in (*self.plan.arms, *arms)}
        search = self.plan.search if search is None else search
        all_prompts = self.plan.prompts if prompts is None else tuple(prompts)
        plan = replace(self.plan, arms=tuple(by_name.values()), search=search, prompts=all_prompts)
        return replace(self, plan=plan)

    @property
    def experiment_id(self) -> str:
        return self.folder.name

    @property
    def logs(self) -> Path:
        return self.plan.configuration.logs

    @property
    def resume_command(self) -> str:
        """The command that runs the rest of it; of a tournament's arm, the rest of the tournament."""
        tournament = self.experiment_id.rpartition(".")[0]
        if tournament and f"{tournament}.1" in saved_ids(self.logs):
            return f"wirefault run --resume {tournament}"
        if self.plan.search:
            return f"wirefault search resume {self.experiment_id}"
        command = "audit" if AUDIT in names_in(self.logs, self.folder) else "run"
        return f"wirefault {command} --resume {self.experiment_id}"

    def prompts_file(self, arm: PlannedArm) -> Path:
        """All prompts of the arm, with their keys."""
        return self.folder / prompts_name(arm.perturbation)

    def run_ids(self, arm: PlannedArm) -> list[str]:
        """The runs of that arm that have begun, in their order."""
        return [name for name in self._folders(arm) if has_begun(self.logs, name)]

    def _folders(self, arm: PlannedArm) -> list[str]:
        """The runs of that arm that have a folder, in their order."""
        first = self._first_run_id(arm)
        names = run_names(self.logs, first)
        again = [name for name in names if name.startswith(f"{first}.") and _number(name, first)]
        again.sort(key=lambda name: int(_number(name, first)))
        return [*([first] if first in names else []), *again]

    def next_run_ids(self, arm: PlannedArm, count: int) -> list[str]:
        """Ids for the next runs of that arm. A run that was killed before it began has used its id."""
        first = self._first_run_id(arm)
        ends = [run_id[len(first) + 1 :] for run_id in self._planned_ids(arm)]
        before = max((int(end) if end.isdecimal() else 1 for end in ends), default=0)
        numbers = range(before + 1, before + count + 1)
        return [first if number == 1 else f"{first}.{number}" for number in numbers]

    def history_of(self, arm: PlannedArm) -> ArmHistory:
        """All events of its runs until now."""
        return read_arm(self.plan.configuration.logs, self.run_ids(arm), len(self.prompts_of(arm)))

    def prompts_of(self, arm: PlannedArm) -> Sequence[Prompt]:
        """The prompts that the arm has to run until now; all, if their number is fixed."""
        prompts = self.plan.prompts_of(arm)
        if self.plan.sequential is None:
            return prompts[: self.extent]
        state = self._looks.state or self.look()
        # the control after the faults repeats what the one before them ran
        name = CONTROL if arm.is_control else arm.name
        return prompts[: state.extents[name]]

    def look(self) -> SequentialState:
        """Look at the evidence until now, block by block. For experiments until decided."""
        plan = self.plan.sequential
        assert plan is not None
        self._looks.state = follow(plan, self._first_episodes)
        return self._looks.state

    def _first_episodes(self, name: str, count: int) -> ArmFacts:
        """The first planned episodes of an arm that completed, compared with as many of the control.

        Later episodes are left out, so that a look has the same result whenever it is repeated.
        """
        arm = next(arm for arm in self.plan.arms if arm.name == name)
        keys = {prompt.key for prompt in self.plan.prompts[:count]}
        facts = self._recorded_facts(arm, count).only(keys)
        if arm.is_control:
            return facts
        return judged_by_control(facts, self._recorded_facts(self.plan.arms[0], count).only(keys))

    def facts_of(self, arm: PlannedArm) -> ArmFacts:
        """The facts of its runs until now; an arm with faults is compared with the control."""
        return self.compared(arm, self._recorded_facts(arm))

    def compared(self, arm: PlannedArm, facts: ArmFacts) -> ArmFacts:
        """Return the arm's facts, compared with the control so far; a control's facts are unchanged."""
        calm = [self._recorded_facts(control) for control in self._controls_of(arm)]
        return with_differences(judged_by_control(facts, *calm), calm) if calm else facts

    def _controls_of(self, arm: PlannedArm) -> Sequence[PlannedArm]:
        """The two arms without faults that the arm is compared with, the same prompts first."""
        controls = [other for other in self.plan.arms if other.is_control]
        if arm.is_control or not controls:
            return ()
        same = [each for each in (self.calm_arm(arm),) if each is not arm and each not in controls]
        return [*same, *controls][:2]

    def _waits_for(self, arm: PlannedArm, facts: ArmFacts) -> str:
        """The control that has not run yet and can still change an outcome of the arm; empty without one."""
        first, *others = self._controls_of(arm) or [arm]
        left = [each.name for each in others if not self.run_ids(each)]
        return left[0] if left and waits_for_control(facts, self._recorded_facts(first)) else ""

    def calm_arm(self, arm: PlannedArm) -> PlannedArm:
        """The control with the same prompts, perturbed or not."""
        arms = self.plan.arms
        same = (each for each in arms if each.is_calm and each.perturbation == arm.perturbation)
        return next(same, arms[0])

    def control_of(self, arm: PlannedArm) -> Mapping[str, ByControl]:
        """Return the control's facts so far about the arm's episodes; empty for a control."""
        return {} if arm.is_control else by_control(self.facts_of(arm))

    def _recorded_facts(self, arm: PlannedArm, planned: int | None = None) -> ArmFacts:
        recorded = self.run_ids(arm)
        lost = sorted(self._planned_ids(arm) - set(recorded))
        runs = [self.facts_of_run(arm, run_id) for run_id in recorded]
        count = len(self.prompts_of(arm)) if planned is None else planned
        return put_together([*runs, *map(self._lost_run_facts, lost)], count)

    def facts_of_run(self, arm: PlannedArm, run_id: str) -> RunFacts:
        """The facts of one of its runs."""
        return self.facts.read(run_id, arm.entries)

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
            for prompt in self.prompts_of(arm)
            if prompt.key not in completed or 0 < facts.invalid.get(prompt.key, 0) <= self.retry_invalid
        ]

    def arm_result(self, arm: PlannedArm) -> ArmResult:
        """The result of its runs."""
        facts, terms = self.facts_of(arm), self.plan.terms
        rates = rates_of(arm)
        measures = measures_of(facts, terms, self.plan.passes, rates) if facts.episodes else {}
        return ArmResult(
            arm.name,
            tuple(self.run_ids(arm)),
            arm.hypothesis,
            measures,
            facts.failure,
            self._asserted(arm, facts) if facts.episodes else (),
            facts.missing,
            {each.episode: each.judged.why for each in facts.episodes if each.judged.outcome == "invalid"},
            facts.superseded,
            tuple(finding for episode in facts.valid.episodes for finding in episode.control.differences),
            facts.claims,
            self._faulted_measures(arm, facts),
            self._decisions(arm),
            self._resilience(arm, facts, measures) if facts.episodes else None,
            self._waits_for(arm, facts),
        )

    def _resilience(self, arm: PlannedArm, facts: ArmFacts, measures: Mapping[str, Measure]) -> Resilience:
        """What failures cost the arm, against a control that shows something."""
        first, terms = self.plan.arms[0], self.plan.terms
        if first.is_control and not arm.is_control:
            control = self._recorded_facts(first)
            if control.episodes and not control.failure:
                measures = against_control(measures, measures_of(control, terms, self.plan.passes), terms)
        return Resilience(facts, measures, terms, arm.hypothesis)

    def _faulted_measures(
        self, arm: PlannedArm, facts: ArmFacts
    ) -> tuple[Mapping[str, Measure], Mapping[str, Measure]] | None:
        """The measures of the arm and its control over the episodes for which a fault was planned.

        None without a statement about these.
        """
        statements = (each for text in arm.hypothesis for each in parse_statements(text))
        if arm.is_control or not facts.episodes or not any(each.faulted for each in statements):
            return None
        control = self._recorded_facts(self.plan.arms[0])
        shadows = self._recorded_facts(self.calm_arm(arm))
        keys = {key for keys in planned_faults(shadows.episodes, arm.name).values() for key in keys}
        terms, passes = self.plan.terms, self.plan.passes
        ours = measures_of(facts.only(keys), terms, passes, rates_of(arm))
        return ours, measures_of(control.only(keys), terms, passes)

    def _decisions(self, arm: PlannedArm) -> Mapping[str, Decision]:
        if self.plan.sequential is None:
            return {}
        return (self._looks.state or self.look()).decisions.get(arm.name, {})

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

    def write_prompts(self, prompts: Sequence[Prompt], run_id: str) -> Path:
        """Write a prompts file for one run, named after it. Raises ``OSError``."""
        path = self.folder / f"{run_id}.json"
        replace_shared(self.logs, path, dump_prompts(prompts).encode())
        return path

    @property
    def end(self) -> ExperimentEnd:
        """How the last run ended. Raises ``InputError`` if that cannot be read."""
        path = self.folder / END
        try:
            return convert(read_document(self.logs, path), ExperimentEnd)
        except FileNotFoundError:
            return ExperimentEnd()
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: cannot be read: {error}") from None

    def note_end(self, **noted: str) -> None:
        """Update fields of ``ExperimentEnd``. Raises ``OSError``."""
        _write_json(self.logs, self.folder / END, structs.replace(self.end, **noted))

    def forget_end(self) -> None:
        """Delete the end: another run begins. The manifest then covers the plan and the runs until now."""
        remove_shared(self.logs, self.folder / END)
        self.write_plan()

    def trusting(self, plan: ExperimentPlan) -> SavedExperiment:
        """The same experiment, whose code may run because the user named the file of ``plan`` again.

        Raises ``InputError`` if that has other code.
        """
        if plan_code(plan) != plan_code(self.plan):
            raise InputError(
                f"the file is not the plan of {self.experiment_id}: its commands or functions differ"
            )
        facts = FactsStore(self.logs, self.folder / _FACTS, trusted=self.evidence.is_trusted)
        return replace(self, facts=facts)

    def require_own_plan(self, way: str, *, with_code: bool) -> None:
        """Raise ``InputError`` if the plan may be another user's; only ``with_code``: if it has some, too.

        ``way`` is how to run it.
        """
        if self.facts.runs_code or (with_code and not any(plan_code(self.plan))):
            return
        what = "has commands, functions or addresses, and " if with_code else ""
        again = f"; wirefault run --again {self.experiment_id} runs a copy of it" if not with_code else ""
        raise InputError(
            f"{self.folder / PLAN}: {what}this user did not sign it; to run it, name the experiment's file,"
            f" too: wirefault run FILE {way} {self.experiment_id}{again}"
        )

    def write_plan(self) -> None:
        """Write and sign the plan. Raises ``OSError``."""
        contents = plan_files(self.plan, self.extent)
        for file, data in contents.items():
            replace_shared(self.logs, self.folder / file, data)
        self._sign(contents, complete=False)

    def _sign(self, contents: Mapping[str, bytes], *, complete: bool) -> None:
        """Sign what this user recorded. A recording that another user began has no signature from then on."""
        if self.evidence.is_own:
            sign_recording(self.logs, self.experiment_id, contents, complete=complete)
        else:
            remove_signature(self.logs, self.experiment_id)

    def worst_finding(self) -> str | None:
        """The worst finding of all arms, compared with the control; None if a run cannot be read."""
        ran = [arm for arm in self.plan.arms if self.run_ids(arm)]
        episodes = (episode for arm in ran for episode in self.facts_of(arm).valid.episodes)
        findings = (finding for episode in episodes for finding in episode.findings)
        worst = worst_finding(findings)
        readable = all(self.facts_of_run(arm, each).is_readable for arm in ran for each in self.run_ids(arm))
        return worst if worst or readable else None

    def write_verdict(self, verdict: Mapping[str, Any], worst: str | None) -> None:
        """Write verdict, worst finding and facts, and sign all files. Raises ``OSError``.

        Raises ``AlteredError``, and signs nothing, if a history was altered during the run.
        """
        evidence_of(self.logs, self.experiment_id).require_unaltered()
        _write_json(self.logs, self.folder / VERDICT, {**verdict, "worst": worst})
        self.facts.write()
        self._sign(plan_files(self.plan, self.extent), complete=True)

    def _asserted(self, arm: PlannedArm, facts: ArmFacts) -> tuple[Asserted, ...]:
        """The results of the arm's assertions."""
        all_at_once = any(needs_all_views(parse_assertion(entry)) for entry in arm.assertions)
        views = list(self._views_of(facts)) if all_at_once else []
        return tuple(
            assert_on_arm(
                entry,
                {episode.episode: asserted_by_control(entry, episode, place) for episode in facts.episodes},
                facts.planned,
                views,
                runs_code=self.facts.runs_code,
            )
            for place, entry in enumerate(arm.assertions)
        )

    def _views_of(self, facts: ArmFacts) -> Iterator[EpisodeView]:
        for run_id in dict.fromkeys(facts.source.values()):
            for view in episode_views(self.facts.judgement(run_id)):
                if facts.source.get(view.episode) == run_id:
                    yield view

    def _planned_ids(self, arm: PlannedArm) -> set[str]:
        """The ids of the runs for which prompts were written, or that have a folder."""
        first = self._first_run_id(arm)
        names = (name for name in names_in(self.logs, self.folder) if name.startswith(first))
        return {name.removesuffix(".json") for name in names if name.endswith(".json")} | {
            *self._folders(arm)
        }

    def _first_run_id(self, arm: PlannedArm) -> str:
        if self.plan.is_plain_run:
            return self.experiment_id
        place = [each.name for each in self.plan.arms].index(arm.name)  # a search changes an arm's episodes
        return f"{self.experiment_id}-{place + 1}-{arm.name}"


def _number(run: str, first: str) -> str:
    """The number at the end of the id of a further run; empty for other names."""
    end = run[len(first) + 1 :]
    return end if end.isdecimal() else ""


def save(plan: ExperimentPlan, experiment_id: str) -> SavedExperiment:
    """Write the plan and sign it. Raises ``OSError``."""
    logs = plan.configuration.logs
    folder = logs / "experiments" / experiment_id
    if names_in(logs, folder):
        raise FileExistsError(errno.EEXIST, "the experiment already exists", str(folder))
    saved = SavedExperiment(folder, plan, FactsStore(logs, folder / _FACTS))
    saved.write_plan()
    return saved


def load_saved(logs: Path, experiment_id: str, environ: Mapping[str, str]) -> SavedExperiment:
    """Load a saved experiment; ``latest`` is the newest. Runs none of its code.

    Raises ``InputError`` if it is missing or unreadable, ``AlteredError`` if a file was altered.
    """
    known = saved_ids(logs)
    if experiment_id == "latest":
        experiment_id = latest_id(logs)
    if experiment_id not in known:
        raise InputError(f"{logs / 'experiments'}: unknown experiment {experiment_id}")
    folder = logs / "experiments" / experiment_id
    evidence = evidence_of(logs, experiment_id)
    evidence.require_unaltered()
    plan, extent = read_plan(logs, folder, environ)
    facts = FactsStore(logs, folder / _FACTS, trusted=evidence.is_trusted, runs_code=evidence.is_own)
    return SavedExperiment(folder, plan, facts, evidence, extent=extent)


def _write_json(logs: Path, path: Path, value: Any) -> None:
    """Write atomically: a killed process leaves the old file."""
    replace_shared(logs, path, json_bytes(value))
