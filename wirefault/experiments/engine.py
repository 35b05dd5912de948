"""Engines run an experiment's episodes: their interface, and the engine of one machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from queue import PriorityQueue
from threading import Lock
from typing import Protocol

from wirefault.core.errors import LAB_FAILED
from wirefault.experiments.cost import Cost
from wirefault.experiments.plan import PlannedArm
from wirefault.experiments.saved import SavedExperiment
from wirefault.experiments.verdict import ArmResult
from wirefault.experiments.watch import ArmSoFar
from wirefault.lab.own_lab import Halt, RunningLab, with_own_lab
from wirefault.lab.process import ProcessLog
from wirefault.lab.run_document import run_document
from wirefault.lab.toxiproxy import Choice
from wirefault.settings.budgets import with_pool
from wirefault.settings.settings import Settings
from wirefault.wiring.prompts import Prompt, PromptsSource

# Runs these prompts of an arm; the highest exit code of its runs. Several threads may call it. The experiment
# may have more arms than when the lab started: a search adds some.
RunArm = Callable[[SavedExperiment, PlannedArm, Sequence[Prompt]], int]


@dataclass(frozen=True)
class RunControl:
    """How an experiment is run, and the callbacks for its progress."""

    toxiproxy: Choice
    say: Callable[[str], None]
    """Takes sentences for people."""
    workers: int = 1
    """Episodes side by side, each on a lane."""
    lanes: int | None = None
    """More lanes than workers, for episodes that begin while others wait; None: one for each worker."""
    verbose: bool = False
    """The runs print on the console, not into files."""
    details: bool = False
    """A single run shows the stages of each fault, and how the lab did."""
    as_json: bool = False
    """A single run ends with its summary as JSON."""
    as_is: bool = False
    """The subject of a single run has this process's input."""
    on_stderr: bool = False
    """Its console is standard error, since standard output is the subject's."""
    shows_why: bool = True
    """A single run ends with the line about its worst episode."""
    halt: Halt = field(default_factory=Halt)
    """Checked by the engine all the time."""
    progress: Callable[[ArmSoFar], None] | None = None
    """Called twice a second with the state of the arm, or after each trial."""
    expected: Cost | None = None
    """The cost still to come, where the caller runs more than this experiment; None: of this experiment."""
    arm_done: Callable[[ArmResult, float], None] | None = None
    """Called after each arm with its result so far and the seconds that it took."""
    lab_ready: Callable[[RunningLab], None] | None = None
    """Called by an engine of this machine before the first episode."""
    batch_begins: Callable[[SavedExperiment], None] | None = None
    """Called before each batch with the experiment as planned."""
    trial_begins: Callable[[], bool] | None = None
    """Called before each trial, on its thread; if it returns False, the trial does not run."""
    trial_done: Callable[[SavedExperiment, str], None] | None = None
    """Called after each trial with its episode."""


class Engine(Protocol):
    """Runs episodes; the runs are saved under ``logs/runs``, by the ids of the arm."""

    def run(self, saved: SavedExperiment, how: RunControl, run_arms: Callable[[RunArm], int]) -> int:
        """Prepare, call ``run_arms`` once with a function that runs an arm, and clean up; the exit code.

        Raises what ``run_arms`` raises.
        """
        ...


# a run keeps its events in memory until its end; this bounds the memory of an arm of any length
_MAX_EPISODES = 1000
# Two signals at once may both reach a thread of the pool, and then nothing wakes the main thread, which alone
# handles them: so it wakes up this often.
LOOK_UP_EVERY_S = 0.1
"""Seconds."""


class LocalEngine:
    """Deals the remaining episodes of an arm to the lanes of its lab, one run at a time on each."""

    def run(self, saved: SavedExperiment, how: RunControl, run_arms: Callable[[RunArm], int]) -> int:
        """See ``Engine``."""
        lanes = how.lanes or min(how.workers, len(saved.plan.prompts))

        def in_lab(lab: RunningLab) -> int:
            if how.lab_ready is not None:
                how.lab_ready(lab)
            code = run_arms(_Lanes(lab, how, lanes).run)
            try:
                saved.note_end(rollback=lab.verify_rollback())
            except OSError:
                if code != LAB_FAILED:  # else the run has said why
                    raise
            return code

        configuration = saved.plan.configuration
        many = bool(saved.plan.search or how.lanes) or lanes * len(saved.plan.arms) > 1
        return with_own_lab(
            configuration, how.toxiproxy, how.say, in_lab, lanes, many_runs=many, halt=how.halt
        )


def deal(prompts: Sequence[Prompt], lanes: int) -> list[list[Sequence[Prompt]]]:
    """The prompts of each run on each lane, dealt in turn so that lanes end at about the same time."""
    hands = [prompts[lane::lanes] for lane in range(lanes) if prompts[lane::lanes]]
    return [[hand[at : at + _MAX_EPISODES] for at in range(0, len(hand), _MAX_EPISODES)] for hand in hands]


class _Lanes:
    """Deals episodes to the lanes of a lab that are free; several threads may do so at once."""

    def __init__(self, lab: RunningLab, how: RunControl, count: int) -> None:
        self._lab, self._how, self._count = lab, how, count
        self._free: PriorityQueue[int] = PriorityQueue()
        for lane in range(count):
            self._free.put(lane)
        self._reserved: set[str] = set()
        self._reserving = Lock()

    def run(self, saved: SavedExperiment, arm: PlannedArm, prompts: Sequence[Prompt]) -> int:
        """See ``RunArm``."""
        dealt = deal(prompts, self._count)
        if not dealt:
            return 0
        run_ids = self._reserve(saved, arm, sum(map(len, dealt)))
        numbered = iter(run_ids)
        runs = [[(next(numbered), portion) for portion in of_lane] for of_lane in dealt]
        try:
            with ThreadPoolExecutor(len(runs)) as pool:
                running = [pool.submit(self._run_on_lane, saved, arm, of_lane) for of_lane in runs]
                while wait(running, LOOK_UP_EVERY_S).not_done:
                    pass
                return max(lane.result() for lane in running)
        finally:
            with self._reserving:
                self._reserved.difference_update(run_ids)

    def _reserve(self, saved: SavedExperiment, arm: PlannedArm, count: int) -> list[str]:
        """Ids of runs that no other thread is about to begin."""
        with self._reserving:
            next_ids = saved.next_run_ids(arm, count + len(self._reserved))
            run_ids = [run_id for run_id in next_ids if run_id not in self._reserved][:count]
            self._reserved.update(run_ids)
            return run_ids

    def _run_on_lane(
        self, saved: SavedExperiment, arm: PlannedArm, runs: Sequence[tuple[str, Sequence[Prompt]]]
    ) -> int:
        lane = self._free.get()
        try:
            for run_id, prompts in runs:
                code = _carry_out(self._lab, saved, arm, self._how, lane, run_id, prompts)
                if not saved.plan.is_plain_run:
                    saved.facts_of_run(arm, run_id)  # cached now, while other runs continue
                if code:
                    return code
            return 0
        finally:
            self._free.put(lane)


def settings_of_run(saved: SavedExperiment, arm: PlannedArm) -> tuple[Settings, str]:
    """The settings of each run of the arm, and the experiment whose control judges it; empty without one."""
    # all runs of an arm share one budget; one episode is one run
    pool = f"{saved.experiment_id}-{arm.name}" if len(saved.prompts_of(arm)) > 1 else ""
    shared = with_pool(arm.settings.budgets, pool)
    settings = arm.settings.model_copy(update={"budgets": shared})
    has_control = not arm.is_control and any(other.is_control for other in saved.plan.arms)
    return settings, saved.experiment_id if has_control else ""


def _carry_out(
    lab: RunningLab,
    saved: SavedExperiment,
    arm: PlannedArm,
    how: RunControl,
    lane: int,
    run_id: str,
    prompts: Sequence[Prompt],
) -> int:
    plan = saved.plan
    settings, control_in = settings_of_run(saved, arm)
    document = partial(
        run_document,
        run_id,
        settings,
        subject=plan.subject,
        control_in=control_in,
        faults_name=plan.configuration.faults_name if plan.is_plain_run else "",
    )
    if plan.source is not None and len(prompts) == len(plan.prompts):
        return lab.run(
            document(
                plan.source,
                verbose=how.details,
                as_json=how.as_json,
                as_is=how.as_is,
                on_stderr=how.on_stderr,
                shows_why=how.shows_why,
            ),
            None,
            lane,
        )
    whole = str(saved.prompts_file(arm)) if how.verbose else ""
    source = PromptsSource(str(saved.write_prompts(prompts, run_id)))
    log = ProcessLog(plan.configuration.logs, saved.folder / f"{run_id}.txt")
    part = document(source, is_part=plan.is_plain_run, is_portion=True, all_prompts=whole)
    return lab.run(part, None if how.verbose else log, lane)
