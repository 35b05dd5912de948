"""slicer: splits data into small packets, with a pause after each."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from wirefault.core.caller_errors import TIMEOUT
from wirefault.toxiproxy.toxics.base import (
    ABOUT,
    NOISE_MS,
    Attribute,
    Chunk,
    CrossedRequest,
    Interrupted,
    ObservedConnection,
    ObservedTry,
    Toxic,
    ToxicStub,
    seconds_from_us,
)


class SlicerToxic(Toxic):
    kind = "slicer"
    meaning = "splits data into small packets, with a pause after each"
    main = "average_size"
    attributes = (
        # An average of 0 makes the real server recurse without end.
        Attribute("average_size", "bytes", 64, 1_000_000, "average size of a packet", minimum=1),
        Attribute("size_variation", "bytes", 0, 1_000_000, "variation of the size; less than average_size"),
        Attribute("delay", "us", 1000, 60_000_000, "pause after each packet"),
    )
    color = "#99ddff"
    can_cause = TIMEOUT
    lets_requests_pass = True

    def problem(self, values: Mapping[str, int]) -> str | None:
        if values["size_variation"] >= values["average_size"]:
            return f"size_variation must be less than average_size ({values['average_size']})"
        return None

    def observed(self, stream: str, attributes: Mapping[str, int], tried: ObservedTry) -> bool:
        """Downstream: at least the pauses for a reply of that size; without pauses no evidence.

        Upstream, as for bandwidth: only a client that gave up before the request was complete shows it; on
        fresh TLS this applies to both streams.
        """
        if stream == "upstream" or (tried.tls == "fresh" and not tried.gateway_complete_request):
            return tried.gave_up_on_request()
        return tried.delayed_by(self.least_ms(attributes, tried.reply_bytes), NOISE_MS)

    def shown_by(
        self, stream: str, attributes: Mapping[str, int], connection: ObservedConnection
    ) -> bool | None:
        """Downstream: the only reply took about the pauses between its packets longer than in the gateway.

        The gateway may write while packets wait, so its time is not added to theirs. Unknown for several
        replies, upstream, and for pauses that cannot be told from noise.
        """
        first, last = connection.first_byte_ms, connection.last_byte_ms
        if stream == "upstream" or first is None or last is None or connection.replies != 1:
            return None
        pauses_ms = self.least_ms(attributes, connection.received)
        more_ms = pauses_ms - connection.gateway_ms
        if more_ms < max(pauses_ms / 2, NOISE_MS):
            return None
        return True if last - first - connection.gateway_ms >= ABOUT * more_ms else None

    def acted_on(self, stream: str, attributes: Mapping[str, int], crossed: CrossedRequest) -> bool:
        largest = attributes["average_size"] + attributes["size_variation"]
        return crossed.bytes_in(stream) > largest and attributes["delay"] > 0

    def least_ms(self, attributes: Mapping[str, int], reply_bytes: int) -> float:
        """The pauses between its packets."""
        largest = attributes["average_size"] + attributes["size_variation"]
        return max(0, -(-reply_bytes // largest) - 1) * attributes["delay"] / 1000

    async def pipe(self, stub: ToxicStub) -> None:
        while (chunk := await stub.receive()) is not None:
            for start, end in _cuts(len(chunk.data), stub.attributes):
                await stub.send(Chunk(chunk.data[start:end], chunk.time))
                try:
                    await stub.sleep(seconds_from_us(stub.attributes["delay"]))
                except Interrupted:
                    await stub.send(Chunk(chunk.data[end:], chunk.time))
                    raise
        stub.close()


def _cuts(size: int, attributes: Mapping[str, int]) -> Iterator[tuple[int, int]]:
    """Start and end of each packet: data is halved until a packet has the average size ± the variation."""
    # Sizes outside these bounds crash the real server.
    average = max(1, attributes["average_size"])
    variation = min(attributes["size_variation"], average)
    uncut = [(0, size)]
    while uncut:
        start, end = uncut.pop()
        if end - start - average <= variation:
            yield start, end
            continue
        middle = start + (end - start) // 2
        if variation > 0:
            middle += random.randrange(variation * 2) - variation
        uncut += [(middle, end), (start, middle)]
