"""What strikes in other arms, which a run's control evaluates and records without applying it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from wirefault.settings.settings import Settings

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


def shadows_of(settings: Settings) -> dict[str, Settings]:
    """By arm the run's settings with what strikes there; empty if it has no shadows."""
    if not settings.shadow:
        return {}
    arms = json.loads(settings.shadow)
    return {name: settings.model_copy(update={**striking, "shadow": ""}) for name, striking in arms.items()}
