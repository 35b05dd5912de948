"""The saved experiments: ids, verdicts, titles and timing, without loading them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from wirefault.core.errors import InputError
from wirefault.history.reader import LIVE

PLAN, VERDICT = "plan.json", "verdict.json"


@dataclass(frozen=True)
class RunCost:
    """Time of the last run of an experiment, with its episodes and workers."""

    experiment_id: str
    seconds: float
    episodes: int
    workers: int


def saved_ids(logs: Path) -> list[str]:
    """The ids of all saved experiments, oldest first."""
    return sorted(path.parent.name for path in (logs / "experiments").glob(f"*/{PLAN}"))


def run_ids_of(logs: Path, name: str) -> list[str]:
    """The runs of that experiment; a lone run's own id."""
    runs = sorted(path.name for path in (logs / "runs").glob("*") if any(path.glob("*.jsonl")))
    return [run for run in runs if run == name or run.startswith((f"{name}-", f"{name}."))]


def lone_runs(logs: Path) -> list[str]:
    """The ids of the runs outside any experiment, oldest first, without live traffic."""
    prefixes = tuple(start for name in saved_ids(logs) for start in (f"{name}-", f"{name}."))
    names = {path.parent.name for path in (logs / "runs").glob("*/*.jsonl")} - set(saved_ids(logs))
    return sorted(name for name in names if not name.startswith((*prefixes, LIVE)))


def latest_id(logs: Path) -> str:
    """The newest experiment or lone run: ids begin with the time. Raises ``InputError``."""
    names = [*saved_ids(logs), *lone_runs(logs)]
    if not names:
        raise InputError(f"{logs}: no runs there; start one with: wirefault demo")
    return max(names)


def last_run_of(logs: Path, title: str) -> RunCost | None:
    """Timing of the last experiment with that title; None if unknown."""
    for experiment_id in reversed(saved_ids(logs)):
        folder = logs / "experiments" / experiment_id
        try:
            verdict = json.loads((folder / VERDICT).read_text(encoding="utf-8"))
            if verdict["title"] == title and verdict["timing"]["episodes"]:
                return RunCost(experiment_id, **verdict["timing"])
        except (OSError, ValueError, KeyError, TypeError):  # from another version, or interrupted
            continue
    return None


def saved_status(logs: Path, experiment_id: str) -> tuple[str, str]:
    """Verdict and title as saved; ``none yet`` without a verdict."""
    folder = logs / "experiments" / experiment_id
    try:
        title = str(json.loads((folder / PLAN).read_text(encoding="utf-8"))["experiment"]["title"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return "unreadable", f"{PLAN}: {error}"
    try:
        verdict = json.loads((folder / VERDICT).read_text(encoding="utf-8"))["verdict"]
    except (OSError, ValueError, KeyError, TypeError):  # killed before or while writing
        verdict = None
    return str(verdict or "none yet"), title
