"""The experiments that lie in ``logs/experiments``: their ids, verdicts, titles and what they took.

Only these are read: an experiment as a whole is loaded by ``wirefault/experiments/saved.py``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from wirefault.core.errors import InputError
from wirefault.history.reader import LIVE

PLAN, VERDICT = "plan.json", "verdict.json"


@dataclass(frozen=True)
class RunCost:
    """What the last flight of an experiment took, for so many episodes and side by side on so many lanes."""

    experiment_id: str
    seconds: float
    episodes: int
    workers: int


def saved_ids(logs: Path) -> list[str]:
    """Of all experiments there, in the order in which they were begun."""
    return sorted(path.parent.name for path in (logs / "experiments").glob(f"*/{PLAN}"))


def run_ids_of(logs: Path, name: str) -> list[str]:
    """The runs of that experiment; of a run by itself its own id."""
    runs = sorted(path.name for path in (logs / "runs").glob("*") if any(path.glob("*.jsonl")))
    return [run for run in runs if run == name or run.startswith((f"{name}-", f"{name}."))]


def lone_runs(logs: Path) -> list[str]:
    """The ids of the runs that belong to no experiment, without live traffic; in the order of their start."""
    prefixes = tuple(start for name in saved_ids(logs) for start in (f"{name}-", f"{name}."))
    names = {path.parent.name for path in (logs / "runs").glob("*/*.jsonl")} - set(saved_ids(logs))
    return sorted(name for name in names if not name.startswith((*prefixes, LIVE)))


def latest_id(logs: Path) -> str:
    """The newest experiment or run by itself: both ids begin with the time. Raises ``InputError``."""
    names = [*saved_ids(logs), *lone_runs(logs)]
    if not names:
        raise InputError(f"{logs}: no run was recorded there; start one with: wirefault demo")
    return max(names)


def last_run_of(logs: Path, title: str) -> RunCost | None:
    """What the last experiment of that title took; None if nothing is known of any there."""
    for experiment_id in reversed(saved_ids(logs)):
        folder = logs / "experiments" / experiment_id
        try:
            verdict = json.loads((folder / VERDICT).read_text(encoding="utf-8"))
            if verdict["title"] == title and verdict["flight"]["episodes"]:
                return RunCost(experiment_id, **verdict["flight"])
        except (OSError, ValueError, KeyError, TypeError):  # of another version, or broken off
            continue
    return None


def shown_of(logs: Path, experiment_id: str) -> tuple[str, str]:
    """Its verdict and its title, as they were written; ``none yet`` for one that came to no verdict."""
    folder = logs / "experiments" / experiment_id
    try:
        title = str(json.loads((folder / PLAN).read_text(encoding="utf-8"))["experiment"]["title"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return "unreadable", f"{PLAN}: {error}"
    try:
        verdict = json.loads((folder / VERDICT).read_text(encoding="utf-8"))["verdict"]
    except (OSError, ValueError, KeyError, TypeError):  # it was killed before it wrote, or while it did
        verdict = None
    return str(verdict or "none yet"), title
