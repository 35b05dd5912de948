"""What an experiment's histories say, to be held against those of another flight of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wirefault.experiments.saved import load_saved
from wirefault.judging.summary import summarise


def fates(logs: Path, experiment: str) -> dict[tuple[str, str], Any]:
    """What became of each episode of each arm, and which faults it met."""
    saved = load_saved(logs, experiment, {"LOGS_DIR": str(logs)})
    return {
        (arm.name, episode.episode): (
            episode.outcome,
            [(fault.entry, fault.stage) for fault in episode.faults],
        )
        for arm in saved.plan.arms
        for episode in summarise(saved.history_of(arm).events).episodes
    }
