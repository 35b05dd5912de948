"""The toxics that settings draw for an attempt. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from wirefault.settings.blast_radius import is_spared
from wirefault.settings.settings import Settings
from wirefault.toxiproxy.planned import PlannedToxic, ToxicDraw, plan_toxics


def plan_attempt(
    settings: Settings,
    tool_links: Iterable[str],
    episode: str,
    attempt: int,
    entries: Iterable[ToxicDraw],
    configuration: int,
) -> list[PlannedToxic]:
    """Those of ``TOXIC_PROB`` on the tool links, then those of the fault set's ``entries``.

    ``configuration``: the number of the set, 0 for the run's own. An episode that is spared has none.
    """
    if is_spared(settings, episode):
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
