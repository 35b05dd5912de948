"""Carry out an experiment: run the batch that its strategy asks for, then ask again.

A strategy is pure: the same recorded episodes give the same next batch. So asking is all that resumes an
interrupted or killed experiment.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from msgspec import structs

from wirefault.core.errors import LAB_FAILED
from wirefault.core.interrupts import INTERRUPTED
from wirefault.experiments.cost import Cost, estimated, taken
from wirefault.experiments.engine import LOOK_UP_EVERY_S, Engine, RunArm, RunControl
from wirefault.experiments.experiment import AFTER, CONTROL
from wirefault.experiments.hypothesis import parse_statements
from wirefault.experiments.index import last_run_of
from wirefault.experiments.plan import ExperimentPlan, PlannedArm
from wirefault.experiments.saved import SavedExperiment
from wirefault.experiments.sequential import progress_lines
from wirefault.experiments.verdict import judge_experiment
from wirefault.experiments.watch import Watch
from wirefault.judging.summary import counted
from wirefault.settings.settings import Settings
from wirefault.wiring.prompts import Prompt

Ran = Mapping[str, Sequence[str]]
"""The keys of the episodes that were run, by arm."""


@dataclass(frozen=True)
class Trial:
    """One run of one episode, beside others."""

    episode: str
    """The key of its prompt in the plan."""
    settings: Settings
    """Instead of the arm's."""
    computes_s: float = math.inf
    """Seconds after which its agent counts as waiting: another trial may begin on a spare lane."""


@dataclass(frozen=True)
class Batch:
    """The episodes that run before the strategy is asked again: all that are left of these arms."""

    arms: Sequence[PlannedArm] = ()
    """In their order. New arms, and further episodes of known ones, are saved in the plan before any runs."""
    search: Mapping[str, Any] | None = None
    """Replaces the terms and notes of a search in its plan; None: unchanged."""
    announced: str = ""
    """A line for people before the first one runs."""
    prompts: Sequence[Prompt] | None = None
    """Replaces the prompts of the plan; None: unchanged."""
    trials: Sequence[Trial] | None = None
    """Of the first arm, instead of what is left of arms. The strategy is asked again as each one ends, and
    may name those that are under way, too.
    """


class Strategy(Protocol):
    """Decides what an experiment runs next."""

    def next(self, saved: SavedExperiment) -> Batch | None:
        """Return the next batch by the episodes recorded so far; None at the end.

        Raises ``UserError`` if these episodes show nothing to go by.
        """
        ...

    def review(self, saved: SavedExperiment, ran: Ran) -> Iterable[str]:
        """Yield lines for people about a batch that was run. Raises ``UserError`` if it shows nothing."""
        return ()

    def cost(self, saved: SavedExperiment) -> Cost | None:
        """Estimate what is left to run; None until the recorded episodes show it."""
        plan = saved.plan
        last = last_run_of(plan.configuration.logs, plan.experiment.title)
        ran = [arm for arm in plan.arms if saved.run_ids(arm)]
        return estimated(plan, last, {arm.name: len(saved.facts_of(arm).episodes) for arm in ran})

    def spent(self, progress: Progress) -> Cost:
        """The cost until now."""
        return taken(progress.timing)


class FixedArms(Strategy):
    """Each arm once, the control first: without its steady state the others do not run."""

    def next(self, saved: SavedExperiment) -> Batch | None:
        """See ``Strategy``."""
        first, *others = saved.plan.arms
        if saved.left_of(first):
            return Batch((first,))
        left = [arm for arm in others if saved.left_of(arm)]
        is_steady = left and judge_experiment([saved.arm_result(first)], saved.plan.terms).verdict == "held"
        return Batch(left) if is_steady else None


class UntilDecided(Strategy):
    """Blocks of all open arms until nothing is open, then the control after them."""

    def next(self, saved: SavedExperiment) -> Batch | None:
        """See ``Strategy``."""
        arms = {arm.name: arm for arm in saved.plan.arms}
        state = saved.look()
        if not state.running:
            ends = not state.has_steady_state or not saved.left_of(arms[AFTER])
            return None if ends else Batch((arms[AFTER],))
        left = [arms[name] for name in state.running if saved.left_of(arms[name])]
        if left and left[0].name == CONTROL:
            return Batch(left[:1])
        return Batch(left) if left and _passes_checks(saved, arms[CONTROL]) else None

    def review(self, saved: SavedExperiment, ran: Ran) -> Iterable[str]:
        """See ``Strategy``. The lines are about a whole block."""
        state = saved.look()
        begun = state.running and not saved.left_of(saved.plan.arms[0])
        return () if begun or AFTER in ran else progress_lines(state)


def strategy_of(plan: ExperimentPlan) -> Strategy:
    """The strategy of an experiment that is not a search."""
    return UntilDecided() if plan.sequential is not None else FixedArms()


def _passes_checks(saved: SavedExperiment, control: PlannedArm) -> bool:
    """Whether the statements that no sequential test decides hold for the control before any fault."""
    if any(saved.run_ids(arm) for arm in saved.plan.arms if not arm.is_calm):
        return True
    result = saved.arm_result(control)
    statements = [each for text in result.hypothesis for each in parse_statements(text)]
    checks = tuple(each.text for each in statements if each.text not in result.decisions)
    judged = judge_experiment([replace(result, hypothesis=checks)], saved.plan.terms)
    return judged.verdict == "held"


@dataclass
class Progress:
    """How far an experiment was carried out."""

    saved: SavedExperiment
    """With the arms that its strategy added."""
    code: int = 0
    """Of the engine; of the run, if the plan has no statement."""
    arms: list[str] = field(default_factory=list)
    """The arms that ran until nothing was left of them, or until no other could begin."""
    trials: list[str] = field(default_factory=list)
    """The episodes of the trials that were begun; none begins twice: it would end in the same way."""
    timing: Mapping[str, float] = field(default_factory=dict)


def carry_out(saved: SavedExperiment, strategy: Strategy, how: RunControl, engine: Engine) -> Progress:
    """Run what is left of the experiment. Raises ``UserError`` as its strategy does.

    Says what is left before its first episode, and what was spent at the end. A plain run does so itself.
    """
    saved.forget_end()
    progress = Progress(saved)
    watch = Watch(saved, how.halt, how.progress)
    progress.code = engine.run(
        saved, how, lambda run_arm: _Loop(progress, how, watch, run_arm).until_done(strategy)
    )
    progress.timing = {**watch.taken, "workers": how.workers}
    if watch.expected and how.expected is None:
        how.say(strategy.spent(progress).text)
    return progress


@dataclass
class _Loop:
    progress: Progress
    how: RunControl
    watch: Watch
    run_arm: RunArm
    _left: dict[str, list[str]] = field(default_factory=dict)
    """The keys of the episodes that are left of each arm although it ran."""
    _running: dict[Future[int], tuple[Trial, float]] = field(default_factory=dict)
    """The trials under way, with the time of their beginning."""

    def until_done(self, strategy: Strategy) -> int:
        """Run batch by batch; ``INTERRUPTED``, or 0."""
        saved = self.progress.saved
        if saved.plan.is_plain_run and isinstance(strategy, FixedArms):  # nothing depends on its episodes
            arm = saved.plan.arms[0]
            return self._run_now(arm, saved.left_of(arm))
        self._recall()
        with ThreadPoolExecutor(self.how.lanes or self.how.workers) as pool:
            return self._until_done(strategy, pool)

    def _until_done(self, strategy: Strategy, pool: ThreadPoolExecutor) -> int:
        while (batch := strategy.next(self.progress.saved)) is not None:
            self._save(batch)
            self._expect(strategy)
            if batch.trials is not None:
                code = self._advance(batch.trials, pool)
                if code is None or code == INTERRUPTED:
                    return code or 0
                continue
            ran: dict[str, Sequence[str]] = {}
            for arm in batch.arms:
                if (left := self._left_of(arm)) == self._left.get(arm.name):
                    continue  # running it again would leave the same ones
                if self._run(arm) == INTERRUPTED:
                    return INTERRUPTED
                ran[arm.name] = left
                if self.how.halt.requested:
                    return 0
            if not ran and batch.search is None:
                return 0
            for line in strategy.review(self.progress.saved, ran) if ran else ():
                self.how.say(line)
        return 0

    def _recall(self) -> None:
        """Count the complete arms of an experiment that is resumed; a search has its notes."""
        saved = self.progress.saved
        for arm in saved.plan.arms if not (saved.plan.search or saved.plan.is_plain_run) else ():
            if saved.left_of(arm) or not saved.run_ids(arm):
                break
            self._run(arm)

    def _expect(self, strategy: Strategy) -> None:
        if not self.watch.expected and (cost := self.how.expected or strategy.cost(self.progress.saved)):
            self.watch.expect(cost)
            if self.how.expected is None:
                self.how.say(cost.text)

    def _save(self, batch: Batch) -> None:
        saved = self.progress.saved
        grown = saved.with_arms(batch.arms, batch.search, batch.prompts)
        if grown.plan != saved.plan:
            self.progress.saved = grown
            grown.write_plan()
        if batch.announced:
            self.how.say(batch.announced)
        if self.how.batch_begins is not None:
            self.how.batch_begins(self.progress.saved)

    def _advance(self, trials: Sequence[Trial], pool: ThreadPoolExecutor) -> int | None:
        """Begin the trials for which there is room, and wait until one ends.

        Its exit code; None if none is under way.
        """
        while True:
            for trial in trials:
                if (
                    trial.episode not in self.progress.trials
                    and self._has_room()
                    and not self.how.halt.requested
                ):
                    self.progress.trials.append(trial.episode)
                    self.watch.begin()
                    begun = pool.submit(self._try, self.progress.saved, trial)
                    self._running[begun] = trial, time.monotonic()
            if not self._running:
                return None
            ended, _ = wait(self._running, LOOK_UP_EVERY_S, FIRST_COMPLETED)
            if ended:
                break
        codes = []
        for each in ended:
            trial, _ = self._running.pop(each)
            codes.append(each.result())
            if codes[-1] == INTERRUPTED:
                continue
            self.watch.trial_ended(trial.episode, len(self.progress.saved.plan.prompts))
            if self.how.trial_done is not None:
                self.how.trial_done(self.progress.saved, trial.episode)
        return INTERRUPTED if INTERRUPTED in codes else max(codes)

    def _has_room(self) -> bool:
        """Whether a lane is free, and fewer agents compute than there are workers."""
        now = time.monotonic()
        computing = sum(now - began < trial.computes_s for trial, began in self._running.values())
        return len(self._running) < (self.how.lanes or self.how.workers) and computing < self.how.workers

    def _try(self, saved: SavedExperiment, trial: Trial) -> int:
        if self.how.trial_begins is not None and not self.how.trial_begins():
            return LAB_FAILED
        arm = structs.replace(saved.plan.arms[0], settings=trial.settings, episodes=(trial.episode,))
        return self.run_arm(saved, arm, saved.prompts_of(arm))

    def _left_of(self, arm: PlannedArm) -> list[str]:
        return [prompt.key for prompt in self.progress.saved.left_of(arm)]

    def _run(self, arm: PlannedArm) -> int:
        """Run what is left of the arm, invalid episodes as often as asked for; the last exit code."""
        saved, began = self.progress.saved, time.monotonic()
        code = 0
        with self.watch.over(arm, saved):
            for _ in range(1 + saved.retry_invalid):
                if code == INTERRUPTED or self.how.halt.requested or not (left := saved.left_of(arm)):
                    break
                code = self._run_now(arm, left)
        if code == INTERRUPTED:
            return code
        self._left[arm.name] = self._left_of(arm)
        self.progress.arms.append(arm.name)
        if self.how.arm_done is not None and saved.plan.sequential is None:
            self.how.arm_done(saved.arm_result(arm), time.monotonic() - began)
        return code

    def _run_now(self, arm: PlannedArm, prompts: Sequence[Prompt]) -> int:
        if prompts:
            workers = min(self.how.workers, len(prompts))
            at_once = f", {workers} at a time" if workers > 1 else ""
            self.how.say(f"{arm.name}: {counted(len(prompts), 'episode')}{at_once}")
        return self.run_arm(self.progress.saved, arm, prompts)
