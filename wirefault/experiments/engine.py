"""What flies an experiment's episodes: the interface of engines, and what they are told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from wirefault.experiments.arms import PlannedArm
from wirefault.experiments.saved import SavedExperiment
from wirefault.experiments.verdict import ArmResult
from wirefault.experiments.watch import ArmSoFar
from wirefault.lab.halt import Halt
from wirefault.lab.toxiproxy import Choice

# Flies what is left of an arm; the gravest exit code of its runs.
RunArm = Callable[[PlannedArm], int]


@dataclass(frozen=True)
class Cockpit:
    """How an experiment is flown. ``workers``: so many episodes side by side, each on a lane.

    ``say`` takes sentences for people; ``verbose`` has the runs print on the console, not into files. An
    engine looks at ``halt`` while it flies, and obeys. ``progress`` hears twice a second how the arm stands.
    """

    toxiproxy: Choice
    say: Callable[[str], None]
    arm_done: Callable[[ArmResult], None]
    workers: int = 1
    verbose: bool = False
    halt: Halt = field(default_factory=Halt)
    progress: Callable[[ArmSoFar], None] | None = None


class Engine(Protocol):
    """Where episodes are flown. Its runs lie under ``logs/runs``, by the ids of the arm."""

    def fly(self, saved: SavedExperiment, how: Cockpit, run_arms: Callable[[RunArm], int]) -> int:
        """Makes ready, calls ``run_arms`` once with what flies an arm, and clears away; the exit code."""
        ...
