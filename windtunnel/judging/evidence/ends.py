"""When the time of a toxic was over in the midst of its attempt, and what a try can show of it then. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from windtunnel.history.events import Event, ToxicsChanged
from windtunnel.toxiproxy.planned import PlannedToxic
from windtunnel.toxiproxy.toxics.observed import NOISE_MS, ObservedTry

# A connection that is closed at once fails within this time.
_CLOSED_AT_ONCE_MS = 1.0


class ToxicEnd(NamedTuple):
    """The removal of a toxic, in seconds since the epoch: from then on, and seen to be gone."""

    begun: float = math.inf
    gone: float = math.inf


class ToxicEnds:
    """The ends that the manager recorded for the toxics of one episode."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        changes = [event for event in events if isinstance(event, ToxicsChanged)]
        self._ends = {
            (change.attempt, toxic.link, toxic.name): ToxicEnd(change.begun, change.t)
            for change in changes
            for toxic in change.ended
        }

    def of(self, attempt: int, planned: PlannedToxic) -> ToxicEnd:
        """Infinite for a toxic that lasted to the end of its attempt."""
        return self._ends.get((attempt, planned.link, planned.name), ToxicEnd())


def cut_short(seen: ObservedTry, left_ms: float) -> ObservedTry:
    """The try as if its client had waited no longer than the toxic lasted, which was ``left_ms`` more.

    A delay is over when its toxic is removed, and a held connection is closed: by the signatures of both, the
    client waited for them that long at most.
    """
    least_ms = _CLOSED_AT_ONCE_MS if seen.client_failed else NOISE_MS
    return replace(seen, client_timeout_ms=min(seen.patience_ms, max(left_ms, least_ms)))
