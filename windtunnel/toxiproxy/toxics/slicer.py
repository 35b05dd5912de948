"""slicer: data is cut into small packets, with a pause after each."""

from __future__ import annotations

from collections.abc import Mapping

from windtunnel.toxiproxy.toxics.base import ABOUT, NOISE_MS, Attribute, ObservedTry, Toxic


class Slicer(Toxic):
    kind = "slicer"
    meaning = "cuts data into small packets, with a pause after each"
    main = "average_size"
    attributes = (
        # 0 makes the server recurse without end
        Attribute("average_size", "bytes", 64, 1_000_000, "average size of a packet", minimum=1),
        Attribute("size_variation", "bytes", 0, 1_000_000, "how far the size varies; below average_size"),
        Attribute("delay", "us", 1000, 60_000_000, "pause after each packet"),
    )

    def problem(self, values: Mapping[str, int]) -> str | None:
        if values["size_variation"] >= values["average_size"]:
            return f"size_variation must be below average_size ({values['average_size']})"
        return None

    def observed(self, stream: str, attributes: Mapping[str, int], sighting: ObservedTry) -> bool:
        """Downstream: the pauses that a reply of that size takes at least; without a pause, no sign.

        Upstream, as for bandwidth: only a client that gave up before the request was through.
        """
        if stream == "upstream":
            return sighting.client_error == "read_timeout" and sighting.crossed(stream)
        largest = attributes["average_size"] + attributes["size_variation"]
        pauses = max(0, -(-sighting.reply_bytes // largest) - 1)
        needed = min(pauses * attributes["delay"] / 1000, sighting.patience_ms)
        return needed >= NOISE_MS and sighting.added_ms >= ABOUT * needed
