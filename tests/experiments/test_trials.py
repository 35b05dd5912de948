"""Trials: single episodes side by side, as an audit asks for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Barrier

import pytest

from tests.experiments.dealer import on_paper
from tests.experiments.test_run_experiment import planned
from tests.support import replace
from wirefault.experiments.engine import RunArm, RunControl
from wirefault.experiments.plan import PlannedArm
from wirefault.experiments.saved import SavedExperiment
from wirefault.experiments.strategy import Batch, Strategy, Trial, carry_out
from wirefault.wiring.prompts import Prompt


@dataclass
class Both(Strategy):
    """A strategy that asks for two trials."""

    computes_s: float

    def next(self, saved: SavedExperiment) -> Batch | None:
        prompts, settings = saved.plan.prompts[:2], saved.plan.arms[0].settings
        return Batch(trials=[Trial(prompt.key, settings, self.computes_s) for prompt in prompts])


@dataclass
class Meeting:
    """An engine whose trials wait for each other, if they are to run side by side."""

    together: bool
    parties: Barrier = field(default_factory=lambda: Barrier(2, timeout=60))
    under_way: int = 0

    def run(self, saved: SavedExperiment, how: RunControl, run_arms: Callable[[RunArm], int]) -> int:
        def run_arm(grown: SavedExperiment, arm: PlannedArm, prompts: Sequence[Prompt]) -> int:
            assert [prompt.key for prompt in prompts] == [*(arm.episodes or ())]
            self.under_way += 1
            assert self.together or self.under_way == 1
            if self.together:
                self.parties.wait()
            self.under_way -= 1
            return 0

        return run_arms(run_arm)


@pytest.mark.parametrize(("workers", "computes_s"), [(2, math.inf), (1, 0.0), (1, math.inf)])
def test_waiting_agent_does_not_count_as_computing(tmp_path: Path, workers: int, computes_s: float) -> None:
    how = replace(on_paper(workers), lanes=2)
    together = (workers, computes_s) != (1, math.inf)
    progress = carry_out(planned(tmp_path), Both(computes_s), how, Meeting(together))
    assert progress.code == 0 and len(progress.trials) == 2
