"""timeout: no data passes, and the connection is closed after a while."""

from __future__ import annotations

from collections.abc import Mapping

from windtunnel.toxiproxy.toxics.base import ABOUT, HOUR_MS, Attribute, ObservedTry, Toxic


class Timeout(Toxic):
    kind = "timeout"
    meaning = "stops all data, then closes the connection (0: never closes it)"
    main = "timeout"
    attributes = (Attribute("timeout", "ms", 400, HOUR_MS, "time until the connection is closed; 0: never"),)

    def observed(self, stream: str, attributes: Mapping[str, int], sighting: ObservedTry) -> bool:
        """The client fails after about M; upstream no whole request arrived, downstream a reply was lost."""
        limit = min(attributes["timeout"] or sighting.patience_ms, sighting.patience_ms)
        return sighting.client_failed and sighting.client_ms >= ABOUT * limit and sighting.crossed(stream)
