"""bandwidth: data passes at a limited rate."""

from __future__ import annotations

from collections.abc import Mapping

from windtunnel.toxiproxy.toxics.base import ABOUT, NOISE_MS, Attribute, ObservedTry, Toxic


class Bandwidth(Toxic):
    kind = "bandwidth"
    meaning = "limits the rate at which data passes"
    main = "rate"
    # 0 would let nothing pass and never end
    attributes = (Attribute("rate", "KB/s", 10, 10_000_000, "rate, 1 KB being 1000 bytes", minimum=1),)

    def observed(self, stream: str, attributes: Mapping[str, int], sighting: ObservedTry) -> bool:
        """Downstream: the reply took the time that its size needs at that rate, or the client gave up.

        Upstream the size of the request is not known: only a client that gave up before the request was
        through shows it.
        """
        if stream == "upstream":
            return sighting.client_error == "read_timeout" and sighting.crossed(stream)
        needed = min(sighting.reply_bytes / attributes["rate"], sighting.patience_ms)
        return needed >= NOISE_MS and sighting.added_ms >= ABOUT * needed
