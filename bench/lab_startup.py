"""Start-up cost of a lab with forked processes, compared with spawned processes."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from unittest.mock import patch

from bench.lab import in_folder
from wirefault.lab.launcher import Lab
from wirefault.lab.process import cannot_fork
from wirefault.lab.toxiproxy import Choice
from wirefault.settings.configuration import Configuration


def measure_forking(configuration: Configuration, rounds: int = 7) -> dict[str, dict[str, float]]:
    """Measure both in turn; return the best of ``rounds`` and the ratio of forked to spawned.

    ``ready_s``: wall time until the lab is ready. ``cpu_s``: user and system time of the launcher and all its
    children, until the lab is down again.
    """
    ways: dict[str, Callable[[], AbstractContextManager[object]]] = {
        "forked": nullcontext,
        "anew": lambda: patch("wirefault.lab.launcher.fork_server", cannot_fork),
    }
    best: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for way, entered in ways.items():
            with entered():
                figures = _measure_start(configuration)
            before = best.get(way, figures)
            best[way] = {name: min(value, before[name]) for name, value in figures.items()}
    best["ratio"] = {name: best["forked"][name] / best["anew"][name] for name in best["anew"]}
    return {way: {name: round(value, 2) for name, value in figures.items()} for way, figures in best.items()}


def _measure_start(configuration: Configuration) -> dict[str, float]:
    used, started = _cpu_s(), time.perf_counter()
    with Lab(configuration, Choice("embedded")):
        ready_s = time.perf_counter() - started
    return {"ready_s": ready_s, "cpu_s": _cpu_s() - used}


def _cpu_s() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure_forking(in_folder(Path(folder)), *map(int, sys.argv[1:])), indent=1))
