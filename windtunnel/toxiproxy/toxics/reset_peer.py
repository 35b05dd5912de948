"""reset_peer: the connection is reset (TCP RST) some time after the first data."""

from __future__ import annotations

from collections.abc import Mapping

from windtunnel.toxiproxy.toxics.base import ABOUT, HOUR_MS, Attribute, ObservedTry, Toxic


class ResetPeer(Toxic):
    kind = "reset_peer"
    meaning = "resets the connection after a while"
    main = "timeout"
    attributes = (Attribute("timeout", "ms", 0, HOUR_MS, "time from the first data to the reset"),)

    def observed(self, stream: str, attributes: Mapping[str, int], sighting: ObservedTry) -> bool:
        """A reset after about N; where the client gives up before, its own read timeout."""
        sign = "connection_reset" if attributes["timeout"] < sighting.patience_ms else "read_timeout"
        limit = min(attributes["timeout"], sighting.patience_ms)
        return (
            sighting.client_failed
            and sighting.client_error == sign
            and sighting.client_ms >= ABOUT * limit
            and sighting.crossed(stream)
        )
