"""Which fault set is in force in a run: its own, or one that was set on the lab. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from windtunnel.faults.sets.canonical import read_canonical
from windtunnel.faults.sets.fault_set import FaultSet, ToxicEntry
from windtunnel.settings.settings import Settings
from windtunnel.state.configurations import ConfigurationRow


def with_faults_of_lab(settings: Settings, set_on_lab: ConfigurationRow | None) -> tuple[Settings, str]:
    """The settings that a run begins with, and a sentence if they have the lab's fault set.

    A run takes the lab's set if it has none of its own.
    """
    if settings.faults or set_on_lab is None or not set_on_lab.faults:
        return settings, ""
    sentence = f"the lab's faults are in force: {set_on_lab.source} (configuration {set_on_lab.number})"
    # the lab's set has its chaos level in its probabilities
    return settings.model_copy(update={"faults": set_on_lab.faults, "chaos_level": 1.0}), sentence


def toxics_in_force(own: FaultSet, set_since: ConfigurationRow | None) -> Sequence[ToxicEntry]:
    """The toxics of the run's own set, or of the one that was set on the lab since the run began."""
    return (own if set_since is None else read_canonical(set_since.faults)).toxics
