"""Results in an experiment's histories, to compare two runs of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wirefault.experiments.saved import load_saved
from wirefault.judging.summary import summarise


def fates(logs: Path, experiment: str) -> dict[tuple[str, str], Any]:
    """The outcome of each episode of each arm, and the faults that it met."""
    saved = load_saved(logs, experiment, {"LOGS_DIR": str(logs)})
    return {
        (arm.name, episode.episode): (
            episode.outcome,
            [(fault.entry, fault.stage) for fault in episode.faults],
        )
        for arm in saved.plan.arms
        for episode in summarise(saved.history_of(arm).events).episodes
    }
