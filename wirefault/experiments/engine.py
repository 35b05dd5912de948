"""What flies an experiment's episodes: the interface of engines, and what they are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from wirefault.experiments.plan import PlannedArm
from wirefault.experiments.saved import SavedExperiment
from wirefault.experiments.verdict import ArmResult
from wirefault.experiments.watch import ArmSoFar
from wirefault.lab.own_lab import Halt, RunningLab, with_own_lab
from wirefault.lab.process import ProcessLog
from wirefault.lab.run_document import run_document
from wirefault.lab.toxiproxy import Choice
from wirefault.settings.budgets import with_pool
from wirefault.wiring.prompts import Prompt, PromptsSource

# Flies what is left of an arm; the gravest exit code of its runs.
RunArm = Callable[[PlannedArm], int]


@dataclass(frozen=True)
class RunControl:
    """How an experiment is run, and who is told of it."""

    toxiproxy: Choice
    say: Callable[[str], None]
    """Takes sentences for people."""
    arm_done: Callable[[ArmResult], None]
    workers: int = 1
    """Episodes side by side, each on a lane."""
    verbose: bool = False
    """The runs print on the console, not into files."""
    as_json: bool = False
    """A single run ends with its summary as JSON."""
    halt: Halt = field(default_factory=Halt)
    """Checked by the engine all the time."""
    progress: Callable[[ArmSoFar], None] | None = None
    """Called twice a second with the state of the arm."""


class Engine(Protocol):
    """Where episodes are flown. Its runs lie under ``logs/runs``, by the ids of the arm."""

    def run(self, saved: SavedExperiment, how: RunControl, run_arms: Callable[[RunArm], int]) -> int:
        """Makes ready, calls ``run_arms`` once with what flies an arm, and clears away; the exit code."""
        ...


# a run keeps its events in memory until its end: so an arm of any length needs no more than this takes
_MOST_OF_A_RUN = 1000
# Two signals at once may both be taken by a thread of the pool, and then nothing wakes the main thread, which
# alone handles them: it looks up so often.
_LOOK_UP_EVERY_S = 0.1


class LocalEngine:
    """Deals what is left of an arm out to the lanes of a lab of its own, a run each."""

    def run(self, saved: SavedExperiment, how: RunControl, run_arms: Callable[[RunArm], int]) -> int:
        """As ``Engine`` says; the runs of one arm at a time."""
        lanes = min(how.workers, len(saved.plan.prompts))

        def in_lab(lab: RunningLab) -> int:
            code = run_arms(lambda arm: _run_arm(lab, saved, arm, how, lanes))
            saved.note_end(rollback=lab.verify_rollback())
            return code

        many = lanes * len(saved.plan.arms) > 1
        configuration = saved.plan.configuration
        return with_own_lab(
            configuration, how.toxiproxy, how.say, in_lab, lanes, many_runs=many, halt=how.halt
        )


def deal(prompts: Sequence[Prompt], lanes: int) -> list[list[Sequence[Prompt]]]:
    """For each lane that gets any, the prompts of each of its runs: in turn, so that all end at much the same
    time."""
    hands = [prompts[lane::lanes] for lane in range(lanes) if prompts[lane::lanes]]
    return [[hand[at : at + _MOST_OF_A_RUN] for at in range(0, len(hand), _MOST_OF_A_RUN)] for hand in hands]


def _run_arm(lab: RunningLab, saved: SavedExperiment, arm: PlannedArm, how: RunControl, lanes: int) -> int:
    """Deals what is left of the arm out to the lanes; the gravest exit code of their runs."""
    left = saved.left_of(arm)
    dealt = deal(left, lanes)
    if not dealt:
        return 0
    how.say(f"{arm.name}: {len(left)} episodes" + (f", {len(dealt)} at a time" if len(dealt) > 1 else ""))
    run_ids = iter(saved.next_run_ids(arm, sum(map(len, dealt))))
    runs = [[(next(run_ids), portion) for portion in of_lane] for of_lane in dealt]

    def run_lane(lane: int) -> int:
        for run_id, prompts in runs[lane]:
            code = _carry_out(lab, saved, arm, how, lane, run_id, prompts)
            if not saved.plan.is_plain_run:
                saved.facts_of_run(arm, run_id)  # which is kept, while others are still in the air
            if code:
                return code
        return 0

    with ThreadPoolExecutor(len(runs)) as pool:
        flying = [pool.submit(run_lane, lane) for lane in range(len(runs))]
        while wait(flying, _LOOK_UP_EVERY_S).not_done:
            pass
        return max(lane.result() for lane in flying)


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
    # the runs of an arm, side by side and one after another, have one budget together
    shared = with_pool(arm.settings.budgets, f"{saved.experiment_id}-{arm.name}")
    settings = arm.settings.model_copy(update={"budgets": shared})
    document = partial(run_document, run_id, settings, subject=plan.subject)
    if plan.source is not None and len(prompts) == len(plan.prompts):
        return lab.run(document(plan.source, as_json=how.as_json), None, lane)
    whole = str(saved.prompts_file) if how.verbose else ""
    source = PromptsSource(str(saved.write_prompts(prompts, run_id)))
    log = ProcessLog(plan.configuration.logs, saved.folder / f"{run_id}.txt")
    part = document(source, is_part=plan.is_plain_run, all_prompts=whole)
    return lab.run(part, None if how.verbose else log, lane)
