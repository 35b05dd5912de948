"""noop: a toxic of the real server that changes nothing. The lab never draws it."""

from __future__ import annotations

from collections.abc import Mapping

from wirefault.toxiproxy.toxics.base import ObservedTry, Toxic


class NoopToxic(Toxic):
    kind = "noop"
    meaning = "changes nothing"

    def observed(self, stream: str, attributes: Mapping[str, int], tried: ObservedTry) -> bool:
        """Never: it has no effect."""
        return False
