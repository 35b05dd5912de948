"""The engine for several machines: each shard of an arm is a Ray task with its own lab."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from wirefault.core.errors import LAB_FAILED, InputError, UserError
from wirefault.core.interrupts import INTERRUPTED, SignalFlag
from wirefault.experiments.engine import RunArm, RunControl
from wirefault.experiments.plan import PlannedArm
from wirefault.experiments.saved import SavedExperiment
from wirefault.lab.own_lab import with_own_lab
from wirefault.lab.process import ProcessLog, interruptible
from wirefault.lab.run_document import run_document
from wirefault.lab.toxiproxy import choose_toxiproxy
from wirefault.settings.configuration import load_configuration
from wirefault.wiring.prompts import Prompt, PromptsSource
from wirefault.wiring.wiring import dumped_wiring


@dataclass(frozen=True)
class Shard:
    """One run with all that another machine needs, and no secrets: keys stay in the environment.

    ``settings`` and ``prompts`` are JSON; ``wiring`` is from ``Wiring.dump``.
    """

    run_id: str
    settings: str
    wiring: Mapping[str, Any]
    prompts: str
    toxiproxy: str


@dataclass(frozen=True)
class ShardResult:
    """The ``files`` of the run's folder by name, and what the run ``printed`` and the lab ``said``."""

    code: int
    files: Mapping[str, bytes]
    printed: bytes
    lines: tuple[str, ...]


def run_shard(shard: Shard) -> ShardResult:
    """Run the shard in a lab in a temporary folder."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory(prefix="wirefault-shard-") as folder:
        try:
            code = _run_in(Path(folder), shard, lines)
        except UserError as error:
            code = LAB_FAILED
            lines.append(f"error: {error}")
        run = Path(folder) / "logs" / "runs" / shard.run_id
        paths = (path for path in run.rglob("*") if path.is_file())
        files = {path.relative_to(run).as_posix(): path.read_bytes() for path in paths}
        printed = _printed_in(Path(folder))
        return ShardResult(code, files, printed.read_bytes() if printed.is_file() else b"", tuple(lines))


def _run_in(folder: Path, shard: Shard, lines: list[str]) -> int:
    home = shard.wiring.get("folder", "")
    if home and not Path(home).is_dir():
        raise UserError(f"{home}: the folder of the wiring must be on each machine, under the same path")
    prompts = folder / "prompts.json"
    prompts.write_text(shard.prompts, encoding="utf-8")
    environ = {
        **os.environ,
        "STATE_DB": str(folder / "state" / "state.db"),
        "EFFECTS_DB": str(folder / "state" / "effects.db"),
        "LOGS_DIR": str(folder / "logs"),
    }
    wiring = dumped_wiring(shard.wiring)
    configuration = load_configuration(environ, wiring=wiring, decided=json.loads(shard.settings))
    toxiproxy = choose_toxiproxy(shard.toxiproxy, environ)
    log = ProcessLog(folder, _printed_in(folder))
    document = run_document(shard.run_id, configuration.settings, PromptsSource(str(prompts)))
    return with_own_lab(configuration, toxiproxy, lines.append, lambda lab: lab.run(document, log))


def _printed_in(folder: Path) -> Path:
    return folder / "printed.txt"


def put_down(result: ShardResult, runs: Path, run_id: str) -> None:
    """Move the run's folder into place, atomically. Raises ``OSError``."""
    if not result.files:
        return
    runs.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".arriving-", dir=runs) as folder:
        arriving = Path(folder) / run_id
        for name, content in result.files.items():
            path = arriving / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        arriving.rename(runs / run_id)


# A shard is retried if its machine is lost; after four losses the shard counts as the cause.
_MAX_TRIES = 4
_LOOK_EVERY_S = 0.2
_STOP_BOUND_S = 15.0


class RayEngine:
    """Runs episodes on the cluster at ``RAY_ADDRESS``, else on a temporary Ray of this machine."""

    def __init__(self) -> None:
        """Raises ``UserError`` without Ray."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # disable Ray's usage reports
        try:
            import ray
        except ImportError:
            raise UserError('--engine ray: pip install "wirefault[ray]"') from None
        self._ray: ModuleType = ray

    def run(self, saved: SavedExperiment, how: RunControl, run_arms: Callable[[RunArm], int]) -> int:
        """See ``Engine``. Raises ``UserError`` for an experiment that a cluster cannot run."""
        if how.toxiproxy.kind == "url":
            raise InputError(f"--toxiproxy {how.toxiproxy.url}: with --engine ray each machine has its own")
        # Ray prints the state of its nodes, even at shutdown, which would break the JSON on standard output
        with redirect_stdout(sys.stderr):
            self._connect()
            try:
                with interruptible() as interrupted:
                    return run_arms(
                        lambda grown, arm, left: self._run_arm(grown, arm, left, how, interrupted)
                    )
            finally:
                self._ray.shutdown()

    def _connect(self) -> None:
        own = {} if os.environ.get("RAY_ADDRESS") else {"include_dashboard": False}
        try:
            self._ray.init(log_to_driver=False, logging_level="ERROR", **own)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise UserError(f"--engine ray: cannot reach a cluster: {error}") from None

    def _run_arm(
        self,
        saved: SavedExperiment,
        arm: PlannedArm,
        left: Sequence[Prompt],
        how: RunControl,
        interrupted: SignalFlag,
    ) -> int:
        shards = _shards_of(saved, arm, left, how)
        if not shards:
            return 0
        running = {self._start(shard): shard for shard in shards}
        tries = dict.fromkeys((shard.run_id for shard in shards), 1)
        codes = [0]
        while running:
            if interrupted.is_set() or how.halt.requested:
                how.say("healing and stopping")
                self._stop(list(running))
                return INTERRUPTED if interrupted.is_set() else 0
            for task in self._ray.wait(list(running), timeout=_LOOK_EVERY_S)[0]:
                shard = running.pop(task)
                result = self._result(task)
                if result is not None:
                    _keep(saved, shard, result, how)
                    codes.append(result.code)
                elif tries[shard.run_id] == _MAX_TRIES:
                    how.say(f"{shard.run_id}: lost {_MAX_TRIES} times with its machine")
                    codes.append(LAB_FAILED)
                else:
                    tries[shard.run_id] += 1
                    how.say(f"{shard.run_id}: lost with its machine; it is run again")
                    running[self._start(shard)] = shard
        return max(codes)

    def _start(self, shard: Shard) -> Any:
        # Ray's retries would be silent
        task = self._ray.remote(run_shard).options(num_cpus=1, max_retries=0, scheduling_strategy="SPREAD")
        return task.remote(shard)

    def _result(self, task: Any) -> ShardResult | None:
        """None for a task lost with its machine. Raises ``UserError`` for one that cannot run."""
        errors = self._ray.exceptions
        try:
            result: ShardResult = self._ray.get(task)
        except errors.RayTaskError as error:
            raise UserError(f"--engine ray: a shard failed on its machine: {error.cause}") from None
        except errors.RayError:
            return None
        return result

    def _stop(self, tasks: Sequence[Any]) -> None:
        for task in tasks:
            with suppress(self._ray.exceptions.RayError):
                self._ray.cancel(task, force=False)
        self._ray.wait(tasks, num_returns=len(tasks), timeout=_STOP_BOUND_S)


def _shards_of(
    saved: SavedExperiment, arm: PlannedArm, left: Sequence[Prompt], how: RunControl
) -> list[Shard]:
    hands = [left[number :: how.workers] for number in range(min(how.workers, len(left)))]
    return [
        Shard(
            run_id,
            arm.settings.model_dump_json(),
            saved.plan.configuration.wiring.dump(),
            saved.write_prompts(hand, run_id).read_text(encoding="utf-8"),
            "embedded" if how.toxiproxy.kind == "embedded" else "auto",
        )
        for run_id, hand in zip(saved.next_run_ids(arm, len(hands)), hands, strict=True)
    ]


def _keep(saved: SavedExperiment, shard: Shard, result: ShardResult, how: RunControl) -> None:
    for sentence in result.lines:
        if how.verbose or result.code:
            how.say(f"{shard.run_id}: {sentence}")
    (saved.folder / f"{shard.run_id}.txt").write_bytes(result.printed)
    put_down(result, saved.plan.configuration.logs / "runs", shard.run_id)
