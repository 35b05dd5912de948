"""latency: every chunk of data is held back for a while."""

from __future__ import annotations

from collections.abc import Mapping

from windtunnel.toxiproxy.toxics.base import ABOUT, HOUR_MS, Attribute, ObservedTry, Toxic


class Latency(Toxic):
    kind = "latency"
    meaning = "delays all data by latency +/- jitter"
    main = "latency"
    attributes = (
        Attribute("latency", "ms", 300, HOUR_MS, "the delay of each chunk"),
        Attribute("jitter", "ms", 0, HOUR_MS, "how far the delay varies to both sides"),
    )

    def observed(self, stream: str, attributes: Mapping[str, int], sighting: ObservedTry) -> bool:
        """The client's time less the gateway's is about the least delay, or the client's timeout."""
        least = min(attributes["latency"] - attributes["jitter"], sighting.patience_ms)
        return least > 0 and sighting.added_ms >= ABOUT * least
