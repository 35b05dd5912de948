"""bandwidth: limits the data rate; large chunks pass in parts of 100 ms."""

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


class BandwidthToxic(Toxic):
    kind = "bandwidth"
    meaning = "limits the data rate"
    main = "rate"
    # At rate 0 nothing would pass, and no transfer would end.
    attributes = (Attribute("rate", "KB/s", 10, 10_000_000, "rate, 1 KB being 1000 bytes", minimum=1),)
    color = "#77aadd"
    can_cause = TIMEOUT
    lets_requests_pass = True

    def observed(self, stream: str, attributes: Mapping[str, int], tried: ObservedTry) -> bool:
        """Downstream: the reply took the time for its size at that rate, or the client gave up.

        Upstream the request's size is unknown: only a client that gave up before the request was complete
        shows it; on fresh TLS this applies to both streams.
        """
        if stream == "upstream" or (tried.tls == "fresh" and not tried.gateway_complete_request):
            return tried.gave_up_on_request()
        return tried.delayed_by(tried.reply_bytes / attributes["rate"], NOISE_MS)

    def acted_on(self, stream: str, attributes: Mapping[str, int], crossed: CrossedRequest) -> bool:
        return self.least_ms(attributes, crossed.bytes_in(stream)) >= NOISE_MS

    def least_ms(self, attributes: Mapping[str, int], reply_bytes: int) -> float:
        return reply_bytes / attributes["rate"]

    def at_share(self, attributes: Mapping[str, int], share: float) -> dict[str, int]:
        return {"rate": round(attributes["rate"] / share)}

    async def pipe(self, stub: ToxicStub) -> None:
        owed_s = 0.0  # how much faster than the rate the data passed; negative: slower
        while (chunk := await stub.receive()) is not None:
            try:
                owed_s = await _trickle(stub, chunk, owed_s)
            except Interrupted:
                await stub.send(chunk)  # the rest of it, at once
                raise
            await stub.send(chunk)
        stub.close()


async def _trickle(stub: ToxicStub, chunk: Chunk, owed_s: float) -> float:
    """Send all but the last part of the chunk, wait until that part is due, and return the time owed."""
    rate = max(0, stub.attributes["rate"])  # a negative rate would crash the real server
    owed_s = owed_s + len(chunk.data) / (rate * 1000) if rate else 0.0
    part_bytes = rate * 100  # at rate 0 the parts are empty: nothing passes, and the end is never reached
    while len(chunk.data) > part_bytes:
        await stub.sleep(_PART_S)
        owed_s -= _PART_S
        part, chunk.data = chunk.data[:part_bytes], chunk.data[part_bytes:]
        await stub.send(Chunk(part, chunk.time))
    start = stub.now()
    await stub.sleep(owed_s)
    return owed_s - (stub.now() - start)
