"""Whether the episodes that a fault set names are among an experiment's prompts. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from wirefault.core.spelling import nearest
from wirefault.faults.sets.canonical import read_canonical
from wirefault.faults.sets.selectors import Only


def problem_with_episodes(faults: str, prompts: Sequence[str]) -> str:
    """The first entry of the canonical set that names an episode of no prompt, in words; empty if none does.

    ``prompts``: their keys. What strikes no episode would fly, and be held, without a fault.
    """
    fault_set = read_canonical(faults)
    selectors = [
        *((fault.id, fault.only) for fault in fault_set.faults),
        *((toxic.id, toxic.only) for toxic in fault_set.toxics),
    ]
    for entry, only in selectors:
        for name in only.episodes:
            if not any(Only(episodes=(name,)).in_episode(key) for key in prompts):
                return f"{entry}: only: episodes: no prompt is called {name!r}{nearest(name, prompts)}"
    return ""
