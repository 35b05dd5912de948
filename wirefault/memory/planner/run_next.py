"""Run proposals one by one: the steps of ``wirefault search next --run``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, replace
from typing import Any

from wirefault.core.errors import InputError
from wirefault.experiments.experiment import CONTROL
from wirefault.experiments.plan import PlannedArm
from wirefault.experiments.saved import SavedExperiment
from wirefault.experiments.search.chain import Chain, Step, chain_of
from wirefault.experiments.search.trials import Trials, base_arm
from wirefault.experiments.watch import ArmSoFar, abort_reason, watched
from wirefault.faults.sets.presets import read_canonical
from wirefault.memory.episodes import Remembered
from wirefault.memory.histories import run_episodes
from wirefault.memory.planner.cells import Cell, cells_for
from wirefault.memory.planner.choose import Proposal, Terms, proposals
from wirefault.memory.planner.enhance import Check, checks_for
from wirefault.memory.planner.evidence import (
    clean_calls,
    clean_signs,
    evidence_in,
    prompt_of,
    signs_of,
    tally_of,
)
from wirefault.memory.planner.planner import Planner, add_hooks
from wirefault.memory.planner.risk import Tally, merged

KIND = "next"


class NextSteps:
    """Proposals and their episodes. Each step is an arm, and is saved with the search before it runs."""

    def __init__(self, saved: SavedExperiment, remembered: Sequence[Remembered] = ()) -> None:
        self.trials = Trials(saved, ())
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

    @property
    def _search(self) -> dict[str, Any]:
        return dict(self.trials.saved.plan.search)

    def _change(self, **changes: Any) -> None:
        saved = self.trials.saved
        self.trials.saved = replace(saved, plan=replace(saved.plan, search={**self._search, **changes}))

    def _save(self, **changes: Any) -> None:
        self._change(**changes)
        self.trials.saved.write_plan()

    def answer(self) -> Chain:
        return chain_of(self._search, self._count)

    def is_done(self) -> bool:
        return bool(self._search.get("ended"))

    @property
    def _steps(self) -> tuple[Step, ...]:
        """The steps until now."""
        return chain_of(self._search, 0).steps

    @property
    def _count(self) -> int:
        """The recorded episodes. Those of finished steps are in the plan, and their histories stay closed."""
        open_arms = [CONTROL, *(step.name for step in self._steps if not step.outcomes)]
        finished = sum(len(step.outcomes) for step in self._steps)
        return finished + sum(len(self.trials.episodes(name)) for name in open_arms)

    def step(self) -> bool:
        """Run the next proposal; False if the search has ended."""
        if self.is_done():
            return False
        if (left := self._unfinished()) is not None:
            self._run(left)
            return True
        if self._count >= self._budget:
            return self._end("budget", f"the budget of {self._budget} episodes is spent")
        if reason := self._tripped():
            return self._end("safety", reason)
        proposal = self._next()
        if proposal is None:
            return self._end("nothing left", "nothing is worth another episode")
        step = self._step_of(proposal)
        self._change(steps=[*self._search.get("steps", ()), asdict(step)])
        self._run(step)  # writes the plan with the step's arm
        return True

    def _end(self, state: str, why: str) -> bool:
        self._save(ended=[state, why])
        self.trials.say(f"ended: {why}")
        return False

    def _unfinished(self) -> Step | None:
        """The step that an interruption left."""
        return next((each for each in self._steps if not each.outcomes), None)

    def _tripped(self) -> str:
        """The condition of ``safety: abort`` that is true over all steps together; empty if none is."""
        outcomes = {f"{s.name}/{key}": each for s in self._steps for key, each in s.outcomes.items()}
        so_far = ArmSoFar("the search", len(outcomes), outcomes)
        conditions = self.trials.saved.plan.experiment.safety.abort
        return abort_reason(
            conditions, "the search", watched(so_far, 0.0, self.trials.taken.get("seconds", 0.0))
        )

    def _episodes_of(self, name: str) -> list[Remembered]:
        """The remembered form of the arm's episodes; read once."""
        saved, arm = self.trials.saved, self.trials.arms[name]
        run_ids = saved.run_ids(arm)
        key = f"{name} {len(run_ids)}"
        if key not in self._own:
            self._own[key] = [each for run_id in run_ids for each in run_episodes(saved, arm, run_id)]
        return self._own[key]

    def _known_cells(self) -> list[Cell]:
        if not self._cells:
            names = list(dict.fromkeys(prompt_of(each.key) for each in self.trials.saved.plan.prompts))
            calls = clean_calls(self._episodes_of(CONTROL), names)
            self._cells = cells_for(calls, every_question=self._every)
        return self._cells

    def _next(self) -> Proposal | None:
        cells = self._known_cells()
        if self._tallies is None:
            self._tallies = evidence_in(self._past, cells).tallies
        now: dict[str, Tally] = {}
        for step in self._steps:
            absent = len(step.outcomes) - step.delivered
            now = merged(now, {step.cell: Tally(step.delivered, step.bad, step.harm, absent)})
        chosen = proposals(cells, self._tallies, now, self._terms)
        first = next((each for each in chosen if self._key_for(each.cell) is not None), None)
        return None if first is None else self.planner.scored(first)

    def _key_for(self, cell: Cell) -> str | None:
        """The next episode of a prompt that leads to the call; None if all were run."""
        used = {key for step in self._steps if step.cell == cell.id for key in step.episodes}
        keys = [p.key for p in self.trials.saved.plan.prompts if prompt_of(p.key) in cell.prompts]
        return next((key for key in keys if key not in used), None)

    def _step_of(self, proposal: Proposal) -> Step:
        cell = proposal.cell
        number = len(self._steps) + 1
        key = self._key_for(cell)
        assert key is not None
        checks = self._checks(cell)
        whole = self.planner.experiment({}, proposal, checks).experiment
        return Step(
            name=f"step-{number}",
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

    def _checks(self, cell: Cell) -> list[Check]:
        """The checks that failures on the cell's link call for, of this search and before it."""
        own = (sign for step in self._steps if step.link == cell.link for sign in step.signs)
        failures = list(dict.fromkeys((*self.planner.failures_at(cell.link), *own)))
        return checks_for(failures, self._clean_seconds)

    @property
    def _clean_seconds(self) -> float:
        return max((each.seconds for each in self._episodes_of(CONTROL)), default=0.0)

    def _run(self, step: Step) -> None:
        self.trials.say(f"{step.name}: {step.text}: {step.reason}")
        canonical = read_canonical(json.dumps({"faults": list(step.entries)})).dump()
        settings = self._base.settings.model_copy(update={"faults": canonical, "chaos_level": 1.0})
        entries = tuple(each for each in step.checks.values() if isinstance(each, dict))
        arm = PlannedArm(step.name, settings, (), entries, variant=step.name, level=1.0)
        self.trials.run(arm, step.episodes)
        done = self._with_results(step)
        steps = [done if each.name == step.name else each for each in self._steps]
        self._save(steps=list(map(asdict, steps)))
        self.trials.say(f"{step.name}: {done.result}")

    def _failed(self, step: Step, outcomes: AbstractSet[str]) -> Iterator[str]:
        """The names of the checks that did not hold."""
        result = self.trials.saved.arm_result(self.trials.arms[step.name])
        asserted = iter(result.asserted)
        for name, check in step.checks.items():
            if isinstance(check, dict):
                if not next(asserted).result.passed:
                    yield name
            elif check.removeprefix("no ") in outcomes:
                yield name

    def _with_results(self, step: Step) -> Step:
        episodes = self._episodes_of(step.name)
        ignored = clean_signs(self._episodes_of(CONTROL))
        tally = sum((tally_of(each, ignored) for each in episodes), Tally())
        delivered = [each for each in episodes if each.faults]
        signs = dict.fromkeys(sign for each in delivered for sign in signs_of(each) if sign not in ignored)
        outcomes = {each.episode: str(each.judged.outcome) for each in self.trials.episodes(step.name)}
        return replace(
            step,
            outcomes=outcomes,
            signs=tuple(signs),
            failed_checks=tuple(self._failed(step, set(outcomes.values()))),
            delivered=tally.delivered,
            bad=tally.bad,
            harm=tally.harm,
        )


def faults_in(experiment: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """The faults of the experiment, as enhancements left them. Raises ``InputError``."""
    try:
        entries = tuple(experiment["method"]["faults"]["faults"])
        read_canonical(json.dumps({"faults": list(entries)}))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the enhanced experiment has unusable method.faults.faults: {error}") from None
    return entries


def _executed(checks: Sequence[Check], experiment: Mapping[str, Any]) -> dict[str, Any]:
    """The checks that a step's arm can execute, by name, and the assertions that enhancements added.

    Each run verifies its rollback anyway, and the safety of the experiment is monitored all the time.
    """
    named = {each.name: each.value for each in checks if each.key[0] in ("assertions", "hypothesis")}
    added = (each for each in experiment.get("assertions") or () if each not in named.values())
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
