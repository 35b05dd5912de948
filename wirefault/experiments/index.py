"""The saved experiments: ids, verdicts, titles and timing, without loading them."""

from __future__ import annotations

import json
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from wirefault.core.errors import InputError
from wirefault.core.files import folders_in, names_in, read_shared
from wirefault.history.reader import LIVE

PLAN, VERDICT = "plan.json", "verdict.json"
PAGES = "pages"
"""Folder of the pages below the logs, one folder for each run or experiment."""
# bytes of a stored JSON document; 1000 statements in 100 arms take a tenth of it
MAX_DOCUMENT_BYTES = 32 * 1024 * 1024
_ACTIVE_WITHIN_S = 60.0
# a folder whose last change is older than the grain of the file system's clock
_SETTLED_NS = 1_000_000_000


@dataclass(frozen=True)
class RunCost:
    """Time of the last run of an experiment, with its episodes and workers."""

    experiment_id: str
    seconds: float
    episodes: int
    workers: int
    estimates: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By arm: success rate and cost per episode, where known."""


def saved_ids(logs: Path) -> list[str]:
    """The ids of all saved experiments, oldest first."""
    folder = logs / "experiments"
    return [name for name in folders_in(logs, folder) if PLAN in names_in(logs, folder / name)]


def run_names(logs: Path, start: str) -> list[str]:
    """The sorted names of all run folders that begin with ``start``."""
    folder = logs / "runs"
    try:
        status = folder.stat()
    except FileNotFoundError:
        return []
    state = status.st_ino, status.st_mtime_ns
    is_settled = time.time_ns() - status.st_mtime_ns > _SETTLED_NS
    names = _listed(logs, folder, state) if is_settled else folders_in(logs, folder)
    at = bisect_left(names, start)
    return list(takewhile(lambda name: name.startswith(start), islice(names, at, None)))


@lru_cache(maxsize=1)  # all arms are read one after the other, and there may be thousands of runs
def _listed(logs: Path, folder: Path, state: tuple[int, int]) -> Sequence[str]:
    """As ``folders_in``; ``state`` is the folder's inode and time of change."""
    return folders_in(logs, folder)


def run_ids_of(logs: Path, name: str) -> list[str]:
    """The runs of that experiment; a lone run's own id."""
    return [run for run in recorded_runs(logs) if run == name or run.startswith((f"{name}-", f"{name}."))]


def recorded_runs(logs: Path) -> list[str]:
    """The ids of all runs with a history, oldest first."""
    folder = logs / "runs"
    names = folders_in(logs, folder)
    return [name for name in names if any(file.endswith(".jsonl") for file in names_in(logs, folder / name))]


def lone_runs(logs: Path) -> list[str]:
    """The ids of the runs outside any experiment, oldest first, without live traffic."""
    experiments = set(saved_ids(logs))
    prefixes = tuple(start for name in experiments for start in (f"{name}-", f"{name}."))
    names = [name for name in recorded_runs(logs) if name not in experiments]
    return [name for name in names if not name.startswith((*prefixes, LIVE))]


def ids_by_age(logs: Path) -> list[str]:
    """The experiments and lone runs, newest first. Ids begin with the time. Raises ``InputError`` if none."""
    names = [*saved_ids(logs), *lone_runs(logs)]
    if not names:
        raise InputError(f"{logs}: no runs; start one with: wirefault demo")
    return sorted(names, reverse=True)


@dataclass(frozen=True)
class StoredRun:
    """A stored run or experiment, with everything that belongs to it."""

    name: str
    paths: tuple[Path, ...]

    @property
    def size(self) -> int:
        return sum(file.lstat().st_size for path in self.paths for file in path.rglob("*") if file.is_file())

    @property
    def is_active(self) -> bool:
        """Return whether it was written to just now."""
        times = [file.lstat().st_mtime for path in self.paths for file in path.rglob("*")]
        return time.time() - max(times, default=0.0) < _ACTIVE_WITHIN_S


def stored_runs(logs: Path) -> Iterator[StoredRun]:
    """Return all runs and experiments, oldest first; an experiment contains its runs. Raises
    ``InputError``.
    """
    for folder in (logs, *(logs / name for name in ("experiments", "runs", "charts", PAGES))):
        if folder.is_symlink():
            raise InputError(f"{folder}: is a link: refusing to use it")
    for name in sorted([*saved_ids(logs), *lone_runs(logs)]):
        runs = run_ids_of(logs, name)
        paths = [logs / "experiments" / name, *(logs / "runs" / run for run in runs)]
        paths += [logs / made / each for made in ("charts", PAGES) for each in dict.fromkeys((name, *runs))]
        yield StoredRun(name, tuple(path for path in paths if path.is_dir() and not path.is_symlink()))


def last_run_of(logs: Path, title: str) -> RunCost | None:
    """Timing of the last experiment with that title; None if unknown."""
    for experiment_id in reversed(saved_ids(logs)):
        folder = logs / "experiments" / experiment_id
        try:
            verdict = read_document(logs, folder / VERDICT)
            if verdict["title"] == title and verdict["timing"]["episodes"]:
                estimates = {arm["arm"]: arm.get("estimates", {}) for arm in verdict.get("arms", ())}
                return RunCost(experiment_id, **verdict["timing"], estimates=estimates)
        except (OSError, ValueError, KeyError, TypeError):  # from another version, or interrupted
            continue
    return None


def saved_status(logs: Path, experiment_id: str) -> tuple[str, str]:
    """Verdict and title as saved; ``none yet`` without a verdict."""
    folder = logs / "experiments" / experiment_id
    try:
        title = str(read_document(logs, folder / PLAN)["experiment"]["title"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return "unreadable", f"{PLAN}: {error}"
    try:
        verdict = read_document(logs, folder / VERDICT)["verdict"]
    except (OSError, ValueError, KeyError, TypeError):  # killed before or while writing
        verdict = None
    return str(verdict or "none yet"), title


def read_document(logs: Path, path: Path) -> Any:
    """Read a stored JSON document. Raises ``OSError``, or ``ValueError`` if it is not JSON."""
    try:
        return json.loads(read_shared(logs, path, MAX_DOCUMENT_BYTES))
    except RecursionError:
        raise ValueError("nested too deeply") from None
