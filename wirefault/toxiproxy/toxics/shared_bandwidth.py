"""shared_bandwidth: limits the data rate of all connections of a proxy together."""

from __future__ import annotations

from collections.abc import Mapping

from wirefault.core.caller_errors import TIMEOUT
from wirefault.toxiproxy.toxics.base import (
    NOISE_MS,
    Attribute,
    Chunk,
    CrossedRequest,
    Interrupted,
    ObservedTry,
    Toxic,
    ToxicStub,
)

_PART_S = 0.1
_FREE_AT = "free_at"  # the time at which the last reserved part has passed


class SharedBandwidthToxic(Toxic):
    kind = "shared_bandwidth"
    meaning = "limits the data rate of all connections of the proxy together, in one direction"
    main = "rate"
    attributes = (Attribute("rate", "KB/s", 10, 10_000_000, "rate, 1 KB being 1000 bytes", minimum=1),)
    in_toxiproxy = False
    color = "#6699cc"
    can_cause = TIMEOUT
    lets_requests_pass = True

    def observed(self, stream: str, attributes: Mapping[str, int], tried: ObservedTry) -> bool:
        """Downstream: the reply took at least the time for its own size at that rate, or the client gave up.

        Other connections delay it further, which is not needed as evidence. Upstream, only a client that gave
        up before the request was complete shows it; on fresh TLS this applies to both streams.
        """
        if stream == "upstream" or (tried.tls == "fresh" and not tried.gateway_complete_request):
            return tried.gave_up_on_request()
        return tried.delayed_by(tried.reply_bytes / attributes["rate"], NOISE_MS)

    def acted_on(self, stream: str, attributes: Mapping[str, int], crossed: CrossedRequest) -> bool:
        return crossed.bytes_in(stream) / attributes["rate"] >= NOISE_MS

    def at_share(self, attributes: Mapping[str, int], share: float) -> dict[str, int]:
        return {"rate": round(attributes["rate"] / share)}

    async def pipe(self, stub: ToxicStub) -> None:
        """Reserve time on the common line for one part after another, so that connections take turns."""
        while (chunk := await stub.receive()) is not None:
            while chunk.data:
                rate = max(1, stub.attributes["rate"]) * 1000
                part_bytes = min(len(chunk.data), max(1, round(rate * _PART_S)))
                due = max(stub.now(), stub.shared.get(_FREE_AT, 0.0)) + part_bytes / rate
                stub.shared[_FREE_AT] = due
                try:
                    await stub.sleep(due - stub.now())
                except Interrupted:
                    await stub.send(chunk)  # the rest of it, at once
                    raise
                part, chunk.data = chunk.data[:part_bytes], chunk.data[part_bytes:]
                await stub.send(Chunk(part, chunk.time))
        stub.close()
