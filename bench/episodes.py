"""Episode throughput of a lab, CPU time per episode of each process, and history size on disk.

An episode calls the scripted model, one tool, and the model again, over the whole wire.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.lab import in_folder
from wirefault.core.identity import new_run_id
from wirefault.experiments.planned_prompts import dump_prompts
from wirefault.lab.launcher import Lab
from wirefault.lab.own_lab import RunningLab
from wirefault.lab.process import ProcessLog, interruptible
from wirefault.lab.run_document import run_document
from wirefault.lab.toxiproxy import Choice
from wirefault.settings.settings import Settings
from wirefault.wiring.prompts import Prompt, PromptsSource

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_CITIES = ("Paris", "London", "Rome", "Tokyo", "Cairo")
# fields of /proc/PID/stat after the name: user and system time, of the process and its reaped children
_TIMES = slice(11, 15)


def measure_episodes(folder: Path, lanes: int = 2, episodes: int = 400) -> dict[str, Any]:
    """Run that many episodes without faults on that many parallel lanes. Times are CPU time in ms."""
    configuration = replace(in_folder(folder), settings=Settings(seed=1, toxic_prob=0, error_prob=0))
    prompts = [
        Prompt(f"e{number}", f"What is the temperature in {_CITIES[number % len(_CITIES)]} right now?", None)
        for number in range(episodes)
    ]
    run = new_run_id()
    with interruptible() as interrupted, Lab(configuration, Choice("embedded"), lanes=lanes) as lab:
        running_lab = RunningLab(lab, interrupted, lambda _: None)

        def run_lane(lane: int) -> int:
            file = folder / f"{lane}.json"
            file.write_text(dump_prompts(prompts[lane::lanes]), encoding="utf-8")
            source = PromptsSource(str(file))
            document = run_document(f"{run}.{lane}", configuration.settings, source)
            return running_lab.run(document, ProcessLog(folder, folder / f"{lane}.txt"), lane)

        before, agents, began = _spent(lab), _spent_by_children(), time.perf_counter()
        with ThreadPoolExecutor(lanes) as pool:
            codes = list(pool.map(run_lane, range(lanes)))
        took = time.perf_counter() - began
        spent = {name: after - before[name] for name, after in _spent(lab).items()}
        spent["agents"] = _spent_by_children() - agents
    if any(codes):
        raise RuntimeError(f"cannot run the episodes: {codes}")
    size = sum(file.stat().st_size for file in folder.glob(f"logs/runs/{run}.*/*.jsonl"))
    return {
        "episodes": episodes,
        "lanes": lanes,
        "per_second": round(episodes / took, 1),
        "history_bytes": round(size / episodes),
        "cpu_ms": {name: round(1000 * seconds / episodes, 2) for name, seconds in spent.items()},
        "cpu_ms_of_all": round(1000 * sum(spent.values()) / episodes, 1),
    }


def _spent(lab: Lab) -> dict[str, float]:
    """Return the CPU seconds of each process."""
    spent = {}
    for name, pid in lab.pids().items():
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        spent[name] = sum(map(int, fields[_TIMES])) * _TICK_S
    return spent


def _spent_by_children() -> float:
    times = os.times()
    return times.children_user + times.children_system


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        print(measure_episodes(Path(name)))
