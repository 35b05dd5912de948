"""Decide which episodes of a run are outside the blast radius, and plan the others. Pure."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping

from wirefault.core.identity import draw
from wirefault.settings.settings import Settings
from wirefault.toxiproxy.planned import PlannedToxic, ToxicDraw, plan_toxics


def radius_draw(seed: int, episode: str) -> float:
    """Return the episode's draw in [0, 1), which is compared with FAULT_EPISODES."""
    return draw(seed, episode, 0, "", "", 0, 0, "blast-radius")


def is_outside_radius(settings: Settings, episode: str) -> bool:
    """Return whether the episode runs without faults, whatever else is drawn for it."""
    return settings.fault_episodes < 1 and radius_draw(settings.seed, episode) >= settings.fault_episodes


# the settings that decide whether a try or an attempt is faulted, including the blast radius
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
    """Return the text of the setting ``shadow``: the faults of these arms, by arm, which are logged only."""
    striking = {name: {key: getattr(settings, key) for key in _STRIKING} for name, settings in arms.items()}
    return json.dumps(striking, ensure_ascii=False, sort_keys=True) if striking else ""


def shadow_arms(settings: Settings) -> dict[str, Settings]:
    """Return the settings of each shadow arm, by name; empty without shadows."""
    if not settings.shadow:
        return {}
    arms = json.loads(settings.shadow)
    return {name: settings.model_copy(update={**striking, "shadow": ""}) for name, striking in arms.items()}


def draws_for_used(settings: Settings) -> bool:
    """Whether the links that a prompt needs decide about its toxics."""
    return settings.toxic_prob > 0 and settings.toxic_scope == "used"


def links_of_toxics(scope: str, tool_links: Iterable[str], needed: Collection[str] | None) -> list[str]:
    """Return the links for which ``TOXIC_PROB`` draws. ``needed``: by the prompt, if known."""
    return [name for name in tool_links if scope != "used" or needed is None or name in needed]


def plan_attempt(
    settings: Settings,
    tool_links: Iterable[str],
    episode: str,
    attempt: int,
    entries: Iterable[ToxicDraw],
    configuration: int,
    needed: Collection[str] | None = None,
) -> list[PlannedToxic]:
    """Plan the toxics of ``TOXIC_PROB`` on the tool links, then those of the fault set's ``entries``.

    ``needed``: the links that the prompt needs, if known. ``configuration``: the number of the set, 0 for the
    run's own. Episodes outside the blast radius get none.
    """
    if is_outside_radius(settings, episode):
        return []
    return plan_toxics(
        settings.seed,
        settings.toxic_prob,
        settings.toxic_specs,
        links_of_toxics(settings.toxic_scope, tool_links, needed),
        episode,
        attempt,
        entries,
        configuration,
        together=settings.toxic_scope == "all",
        seconds=settings.toxic_seconds,
    )
