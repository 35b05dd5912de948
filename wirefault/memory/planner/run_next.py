"""Proposals one by one: the steps of ``wirefault search next --run``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, replace
from typing import Any

from wirefault.core.errors import InputError
from wirefault.experiments.checks import KEYS, check_of, is_of_episode
from wirefault.experiments.experiment import CONTROL
from wirefault.experiments.plan import PlannedArm
from wirefault.experiments.saved import SavedExperiment
from wirefault.experiments.search.chain import Chain, Step, chain_of
from wirefault.experiments.search.trials import Trials, base_arm
from wirefault.experiments.strategy import Batch, Ran
from wirefault.experiments.watch import ArmSoFar, abort_reason, watched
from wirefault.faults.sets.presets import read_canonical
from wirefault.memory.episodes import Remembered
from wirefault.memory.histories import run_episodes
from wirefault.memory.planner.cells import Cell, cells_for
from wirefault.memory.planner.choose import Proposal, Terms, proposals
from wirefault.memory.planner.enhance import CHECKS, Check, checks_for
from wirefault.memory.planner.evidence import (
    clean_calls,
    clean_signs,
    evidence_in,
    prompt_of,
    signs_of,
    tally_of,
)
from wirefault.memory.planner.planner import BASE_CHECKS, Planner, add_hooks
from wirefault.memory.planner.risk import Tally, merged

KIND = "next"


class NextSteps:
    """Proposals and their episodes. Each step is an arm, and is saved with the search before it runs."""

    failures = ()

    def __init__(self, saved: SavedExperiment, remembered: Sequence[Remembered] = ()) -> None:
        terms = saved.plan.search["terms"]
        self._budget = int(terms["budget"])
        self._terms = Terms(**terms["choice"])
        self._every = bool(terms["every_question"])
        self._base = base_arm(saved)
        self._past = [each for each in remembered if each.source != saved.experiment_id]
        self.planner = Planner(self._past, terms=self._terms)
        self._own: dict[str, list[Remembered]] = {}
        self._cells: list[Cell] = []
        self._tallies: Mapping[str, Tally] | None = None
        """Of earlier recordings, by cell."""

    def next(self, trials: Trials) -> Batch | None:
        """The arm of the next proposal, or of the one that an interruption left; then the end."""
        search = trials.saved.plan.search
        if search.get("ended"):
            return None
        steps = self._steps(trials)
        if (left := next((each for each in steps if not each.outcomes), None)) is not None:
            return self._batch(trials, steps, left)
        if self._count(trials, steps) >= self._budget:
            return _end(search, steps, "budget", f"the budget of {self._budget} episodes is spent")
        if reason := _tripped(trials, steps):
            return _end(search, steps, "safety", reason)
        proposal = self._next(trials, steps)
        if proposal is None:
            return _end(search, steps, "nothing left", "nothing is worth another episode")
        step = self._step_of(trials, steps, proposal)
        return self._batch(trials, [*steps, step], step)

    def line(self, trials: Trials, ran: Ran) -> str:
        """See ``Steps``."""
        [name] = ran
        return f"{name}: {next(each for each in self._steps(trials) if each.name == name).result}"

    def answer(self, trials: Trials) -> Chain:
        """See ``Steps``."""
        steps = self._steps(trials)
        search = {**trials.saved.plan.search, "steps": list(map(asdict, steps))}
        return chain_of(search, self._count(trials, steps))

    def _steps(self, trials: Trials) -> list[Step]:
        """The steps until now. Those that were saved with their results are not read again."""
        steps = chain_of(trials.saved.plan.search, 0).steps
        return [
            each if each.outcomes or not trials.episodes(each.name) else self._with_results(trials, each)
            for each in steps
        ]

    def _count(self, trials: Trials, steps: Sequence[Step]) -> int:
        """The recorded episodes. Those of finished steps are in the plan, and their histories stay closed."""
        open_arms = [CONTROL, *(step.name for step in steps if not step.outcomes)]
        return sum(len(step.outcomes) for step in steps) + sum(len(trials.episodes(n)) for n in open_arms)

    def _batch(self, trials: Trials, steps: Sequence[Step], step: Step) -> Batch:
        canonical = read_canonical(json.dumps({"faults": list(step.entries)})).dump()
        settings = self._base.settings.model_copy(update={"faults": canonical, "chaos_level": 1.0})
        entries = tuple(each for each in step.checks.values() if is_of_episode(each))
        arm = PlannedArm(step.name, settings, (), entries, variant=step.name, level=1.0)
        search = {**trials.saved.plan.search, "steps": list(map(asdict, steps))}
        announced = f"{step.name}: {step.text}: {step.reason}"
        return Batch((trials.further(arm, step.episodes),), search, announced)

    def _episodes_of(self, trials: Trials, name: str) -> list[Remembered]:
        """The remembered form of the arm's episodes; read once."""
        saved, arm = trials.saved, trials.arms[name]
        run_ids = saved.run_ids(arm)
        key = f"{name} {len(run_ids)}"
        if key not in self._own:
            self._own[key] = [each for run_id in run_ids for each in run_episodes(saved, arm, run_id)]
        return self._own[key]

    def _known_cells(self, trials: Trials) -> list[Cell]:
        if not self._cells:
            names = list(dict.fromkeys(prompt_of(each.key) for each in trials.saved.plan.prompts))
            calls = clean_calls(self._episodes_of(trials, CONTROL), names)
            self._cells = cells_for(calls, every_question=self._every)
        return self._cells

    def _next(self, trials: Trials, steps: Sequence[Step]) -> Proposal | None:
        cells = self._known_cells(trials)
        if self._tallies is None:
            self._tallies = evidence_in(self._past, cells).tallies
        now: dict[str, Tally] = {}
        for step in steps:
            absent = len(step.outcomes) - step.delivered
            now = merged(now, {step.cell: Tally(step.delivered, step.bad, step.harm, absent)})
        chosen = proposals(cells, self._tallies, now, self._terms)
        first = next((each for each in chosen if _key_for(trials, steps, each.cell) is not None), None)
        return None if first is None else self.planner.scored(first)

    def _step_of(self, trials: Trials, steps: Sequence[Step], proposal: Proposal) -> Step:
        cell = proposal.cell
        key = _key_for(trials, steps, cell)
        assert key is not None
        checks = self._checks(trials, steps, cell)
        whole = self.planner.experiment({}, proposal, checks).experiment
        return Step(
            name=f"step-{len(steps) + 1}",
            cell=cell.id,
            text=cell.text + (f" ({cell.place})" if cell.place else ""),
            reason=proposal.reason,
            because=proposal.because,
            risk=proposal.risk,
            link=cell.link,
            faults=tuple(cell.fault.split(" + ")),
            entries=faults_in(whole),
            checks=_executed(checks, whole),
            episodes=(key,),
        )

    def _checks(self, trials: Trials, steps: Sequence[Step], cell: Cell) -> list[Check]:
        """The checks that failures on the cell's link call for, of this search and before it."""
        own = (sign for step in steps if step.link == cell.link for sign in step.signs)
        failures = list(dict.fromkeys((*self.planner.failures_at(cell.link), *own)))
        clean_seconds = max((each.seconds for each in self._episodes_of(trials, CONTROL)), default=0.0)
        return checks_for(failures, clean_seconds)

    def _with_results(self, trials: Trials, step: Step) -> Step:
        episodes = self._episodes_of(trials, step.name)
        ignored = clean_signs(self._episodes_of(trials, CONTROL))
        tally = sum((tally_of(each, ignored) for each in episodes), Tally())
        delivered = [each for each in episodes if each.faults]
        signs = dict.fromkeys(sign for each in delivered for sign in signs_of(each) if sign not in ignored)
        outcomes = {each.episode: str(each.judged.outcome) for each in trials.episodes(step.name)}
        return replace(
            step,
            outcomes=outcomes,
            signs=tuple(signs),
            failed_checks=tuple(_failed(trials, step, set(outcomes.values()))),
            delivered=tally.delivered,
            bad=tally.bad,
            harm=tally.harm,
        )


def _end(search: Mapping[str, Any], steps: Sequence[Step], state: str, why: str) -> Batch:
    search = {**search, "steps": list(map(asdict, steps)), "ended": [state, why]}
    return Batch(search=search, announced=f"ended: {why}")


def _tripped(trials: Trials, steps: Sequence[Step]) -> str:
    """The condition of ``safety: abort`` that is true over all steps together; empty if none is.

    Those about cost and time end the search while it runs.
    """
    outcomes = {f"{step.name}/{key}": each for step in steps for key, each in step.outcomes.items()}
    so_far = ArmSoFar("the search", len(outcomes), outcomes)
    conditions = trials.saved.plan.experiment.safety.abort
    return abort_reason(conditions, "the search", watched(so_far, 0.0, 0.0))


def _key_for(trials: Trials, steps: Sequence[Step], cell: Cell) -> str | None:
    """The next episode of a prompt that leads to the call; None if all were run."""
    used = {key for step in steps if step.cell == cell.id for key in step.episodes}
    keys = [prompt.key for prompt in trials.saved.plan.prompts if prompt_of(prompt.key) in cell.prompts]
    return next((key for key in keys if key not in used), None)


def _failed(trials: Trials, step: Step, outcomes: AbstractSet[str]) -> Iterator[str]:
    """The names of the checks that did not hold."""
    asserted = iter(trials.saved.arm_result(trials.arms[step.name]).asserted)
    for name, check in step.checks.items():
        if is_of_episode(check):
            if not next(asserted).result.passed:
                yield name
        elif check.removeprefix("no ") in outcomes:
            yield name


def faults_in(experiment: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The faults of the experiment, as enhancements left them. Raises ``InputError``."""
    try:
        entries = tuple(experiment["method"]["faults"]["faults"])
        read_canonical(json.dumps({"faults": list(entries)}))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the enhanced experiment has unusable method.faults.faults: {error}") from None
    return entries


def _executed(checks: Sequence[Check], experiment: Mapping[str, Any]) -> dict[str, Any]:
    """The checks that a step's arm can execute, by name, with the episode checks that enhancements added.

    Each run verifies its rollback anyway, and the safety of the experiment is monitored all the time. Raises
    ``InputError`` for what is no check.
    """
    named = {each.name: each.value for each in checks if each.key == CHECKS}
    known = (*BASE_CHECKS, *named.values())
    try:
        every = [check_of(each) for key in KEYS for each in experiment.get(key) or ()]
    except (TypeError, ValueError) as error:
        raise InputError(f"the enhanced experiment has an unusable check: {error}") from None
    added = (each for each in every if each not in known and is_of_episode(each))
    return named | {f"enhancement {number}": each for number, each in enumerate(added, 1)}


def steps_with(
    remembered: Sequence[Remembered], hooks: Sequence[str] = ()
) -> Callable[[SavedExperiment], NextSteps]:
    """The steps that know these episodes of earlier recordings, after ``add_hooks``."""

    def steps_of(saved: SavedExperiment) -> NextSteps:
        steps = NextSteps(saved, remembered)
        add_hooks(steps.planner, hooks)
        return steps

    return steps_of
