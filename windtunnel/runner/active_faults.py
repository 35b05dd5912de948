"""Which fault set is in force in a run: its own, or one that was set on the lab. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from windtunnel.faults.catalogue import REGISTRY
from windtunnel.faults.sets.fault_set import ToxicEntry, load_set
from windtunnel.settings.settings import Settings
from windtunnel.state.configurations import ConfigurationRow


def with_faults_of_lab(settings: Settings, there: ConfigurationRow | None) -> tuple[Settings, str]:
    """For a run that begins: without faults of its own it has the lab's, and what to say of that."""
    if settings.faults or there is None or not there.faults:
        return settings, ""
    said = f"the lab's faults are in force: {there.source} (configuration {there.number})"
    # what was set on the lab is at its chaos level already
    return settings.model_copy(update={"faults": there.faults, "chaos_level": 1.0}), said


def toxics_in_force(settings: Settings, live: ConfigurationRow | None) -> Sequence[ToxicEntry]:
    """``live``: what was set since the run began, which stands in place of its own."""
    if live is None:
        return settings.fault_set.toxics
    return load_set(live.faults, f"configuration {live.number}", REGISTRY).toxics
