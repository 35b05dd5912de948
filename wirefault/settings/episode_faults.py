"""Which episodes of a run no fault may strike. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from wirefault.core.identity import draw
from wirefault.settings.settings import Settings
from wirefault.toxiproxy.planned import PlannedToxic, ToxicDraw, plan_toxics


def radius_draw(seed: int, episode: str) -> float:
    """The draw of an episode that FAULT_EPISODES is compared with, in [0, 1)."""
    return draw(seed, episode, 0, "", "", 0, 0, "blast-radius")


def is_outside_radius(settings: Settings, episode: str) -> bool:
    """Whether the episode is flown without faults, whatever else is drawn for it."""
    return settings.fault_episodes < 1 and radius_draw(settings.seed, episode) >= settings.fault_episodes


# all that decides whether a try or an attempt is struck, the blast radius with it; all else is the run's own
_STRIKING = (
    "faults",
    "chaos_level",
    "toxic_prob",
    "toxic_scope",
    "toxic_seconds",
    "toxics",
    "error_prob",
    "retry_after",
    "fault_episodes",
    "fault_calls",
)


def shadow_text(arms: Mapping[str, Settings]) -> str:
    """The setting ``shadow`` of a run that is to log what would strike in these arms, by their names."""
    striking = {name: {key: getattr(settings, key) for key in _STRIKING} for name, settings in arms.items()}
    return json.dumps(striking, ensure_ascii=False, sort_keys=True) if striking else ""


def shadow_arms(settings: Settings) -> dict[str, Settings]:
    """By arm the run's settings with what strikes there; empty if it has no shadows."""
    if not settings.shadow:
        return {}
    arms = json.loads(settings.shadow)
    return {name: settings.model_copy(update={**striking, "shadow": ""}) for name, striking in arms.items()}


def plan_attempt(
    settings: Settings,
    tool_links: Iterable[str],
    episode: str,
    attempt: int,
    entries: Iterable[ToxicDraw],
    configuration: int,
) -> list[PlannedToxic]:
    """Those of ``TOXIC_PROB`` on the tool links, then those of the fault set's ``entries``.

    ``configuration``: the number of the set, 0 for the run's own. Episodes outside the blast radius: none.
    """
    if is_outside_radius(settings, episode):
        return []
    return plan_toxics(
        settings.seed,
        settings.toxic_prob,
        settings.toxic_specs,
        tool_links,
        episode,
        attempt,
        entries,
        configuration,
        together=settings.toxic_scope == "all",
        seconds=settings.toxic_seconds,
    )
