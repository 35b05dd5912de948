"""Which calls of a run its faults may strike: those within the blast radius."""

from __future__ import annotations

from collections import defaultdict

from wirefault.settings.blast_radius import is_spared
from wirefault.settings.settings import Settings

# of one episode: attempt, link, fingerprint, and the number of the call among those that ask for the same
StruckCall = tuple[int, str, str, int]


class StruckCalls:
    """The calls that were struck so far, by episode, against what the settings allow."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._struck: defaultdict[str, set[StruckCall]] = defaultdict(set)

    def may_strike(self, episode: str, call: StruckCall) -> bool:
        """Whether the blast radius holds that call of the episode; if so, it counts as struck from now on."""
        if is_spared(self._settings, episode):
            return False
        struck, most = self._struck[episode], self._settings.fault_calls
        if most and call not in struck and len(struck) >= most:
            return False
        struck.add(call)
        return True
