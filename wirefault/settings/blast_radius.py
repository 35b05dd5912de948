"""Which episodes of a run no fault may strike. Pure."""

from __future__ import annotations

from wirefault.core.identity import draw
from wirefault.settings.settings import Settings


def radius_draw(seed: int, episode: str) -> float:
    """The draw of an episode that FAULT_EPISODES is compared with, in [0, 1)."""
    return draw(seed, episode, 0, "", "", 0, 0, "blast-radius")


def is_spared(settings: Settings, episode: str) -> bool:
    """Whether the episode is flown without faults, whatever else is drawn for it."""
    return settings.fault_episodes < 1 and radius_draw(settings.seed, episode) >= settings.fault_episodes
