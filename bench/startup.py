"""Start-up time of commands with a small task, compared with an empty Python program."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from wirefault.history.events import RunFinished, RunSealed, RunStarted
from wirefault.history.writer import Writer, history_file
from wirefault.settings.settings import Settings

_RUN = "20260101-000000-bench"
_WIREFAULT = (sys.executable, "-m", "wirefault")
_COMMANDS: Mapping[str, Sequence[str]] = {
    "python -c pass": (sys.executable, "-c", "pass"),
    "import click": (sys.executable, "-c", "import click"),
    "--help": (*_WIREFAULT, "--help"),
    "faults list": (*_WIREFAULT, "faults", "list"),
    "faults show heavy": (*_WIREFAULT, "faults", "show", "heavy"),
    "runs verify latest": (*_WIREFAULT, "runs", "verify", "latest"),
    "toxiproxy": (*_WIREFAULT, "toxiproxy", "--port", "0"),
}
TARGET_MS = 400


def measure_startup(rounds: int = 15) -> dict[str, dict[str, float]]:
    """Measure each command in turn; return the best of ``rounds``, since other load only adds time.

    ``ms``: wall time to its end; for ``toxiproxy`` until it listens. ``cpu_ms``: user and system
    time. ``times_python``: ``ms`` as a multiple of ``python -c pass``.
    """
    best: dict[str, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        _write_run(Path(folder) / "logs")
        for _ in range(rounds):
            for name, command in _COMMANDS.items():
                figures = _measured(_until_listening if name == "toxiproxy" else _to_its_end, command, folder)
                before = best.get(name, figures)
                best[name] = min(before[0], figures[0]), min(before[1], figures[1])
    nothing = best["python -c pass"][0]
    return {
        name: {"ms": round(ms), "cpu_ms": round(cpu_ms), "times_python": round(ms / nothing, 1)}
        for name, (ms, cpu_ms) in best.items()
    }


def _measured(
    run: Callable[[Sequence[str], str], float], command: Sequence[str], folder: str
) -> tuple[float, float]:
    """Return wall and CPU time in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    ended = run(command, folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return (ended - started) * 1000, used * 1000


def _environ() -> dict[str, str]:
    """Return an environment that keeps compiled modules, so that only the first round compiles them."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {
        "PYTHONPATH": str(Path(__file__).parents[1])
    }


def _to_its_end(command: Sequence[str], folder: str) -> float:
    subprocess.run(command, cwd=folder, env=_environ(), stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter()


def _until_listening(command: Sequence[str], folder: str) -> float:
    with subprocess.Popen(command, cwd=folder, env=_environ(), stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        server.stdout.readline()
        listening = time.perf_counter()
        server.terminate()
    return listening


def _write_run(logs: Path) -> None:
    """Write the history of a run without prompts."""
    writer = Writer(history_file(logs, _RUN, "agent", 0))
    writer.write(RunStarted(1.0, _RUN, "lab", 0, 1, Settings(seed=1).model_dump(), "a subject", 0))
    writer.write(RunFinished(2.0, True, "", 0))
    writer.write(RunSealed({}))
    writer.close()


if __name__ == "__main__":
    print(json.dumps(measure_startup(*map(int, sys.argv[1:])), indent=1))
