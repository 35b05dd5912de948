"""A Ray cluster on paper: its shards write histories, and machines are lost. tests/ray has a real one."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.experiments.dealer import Dealer, Killed
from wirefault.core.interrupts import SignalFlag
from wirefault.experiments.engine import RunControl
from wirefault.experiments.plan import PlannedArm
from wirefault.experiments.ray_engine import RayEngine, Shard, ShardResult
from wirefault.experiments.saved import SavedExperiment
from wirefault.wiring.prompts import Prompt

LOST_EVERY = 3


@dataclass(eq=False)
class _Task:
    shard: Shard
    is_lost: bool


class PaperCluster(RayEngine):
    """Every third shard is lost with its machine. It is killed after ``ends_after`` shards."""

    def __init__(self, dealer: Dealer, ends_after: float = math.inf) -> None:
        errors = SimpleNamespace(RayError=LookupError, RayTaskError=ArithmeticError)
        self._ray: Any = SimpleNamespace(
            exceptions=errors,
            init=lambda **_: None,
            shutdown=lambda: None,
            wait=lambda tasks, timeout: (tasks[:1], tasks[1:]),
            get=self._get,
            remote=lambda _: SimpleNamespace(options=lambda **_: SimpleNamespace(remote=self._begin)),
        )
        self._dealer, self._ends_after = dealer, ends_after
        self._begun = self._done = 0

    @property
    def ran(self) -> Sequence[str]:
        """See ``Dealer``."""
        return self._dealer.ran

    def _run_arm(
        self,
        saved: SavedExperiment,
        arm: PlannedArm,
        left: Sequence[Prompt],
        how: RunControl,
        interrupted: SignalFlag,
    ) -> int:
        self._arm = arm  # one at a time
        return super()._run_arm(saved, arm, left, how, interrupted)

    def _begin(self, shard: Shard) -> _Task:
        self._begun += 1
        return _Task(shard, self._begun % LOST_EVERY == 0)

    def _get(self, task: _Task) -> ShardResult:
        if task.is_lost:
            raise LookupError
        if self._done >= self._ends_after:
            raise Killed
        self._done += 1
        shard = task.shard
        keys = [entry["id"] for entry in json.loads(shard.prompts)]
        with tempfile.TemporaryDirectory() as folder:
            code = self._dealer.write(Path(folder), self._arm, shard.run_id, keys)
            runs = Path(folder, "runs", shard.run_id)
            files = {path.name: path.read_bytes() for path in runs.iterdir()}
        return ShardResult(code, files, b"", ())
