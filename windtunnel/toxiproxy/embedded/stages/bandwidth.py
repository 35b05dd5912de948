"""bandwidth: data passes at a rate (KB/s); what takes longer than 100 ms goes on in parts of 100 ms."""

from __future__ import annotations

from windtunnel.toxiproxy.embedded.stages.base import Chunk, Interrupted, Place, Stage

PART_S = 0.1


class Bandwidth(Stage):
    kind = "bandwidth"
    struct = "BandwidthToxic"
    fields = ("rate",)

    async def run(self, place: Place) -> None:
        owed = 0.0  # time (s) that the data took less than it should; negative: more
        while (chunk := await place.receive()) is not None:
            try:
                owed = await self._trickle(place, chunk, owed)
            except Interrupted:
                await place.send(chunk)  # the rest of it, at once
                raise
            await place.send(chunk)
        place.close()

    async def _trickle(self, place: Place, chunk: Chunk, owed: float) -> float:
        """Sends the chunk but for its last part, and waits until that is due; what is owed then."""
        rate = max(0, self.attributes["rate"])  # the real server ends with a crash below 0
        owed = owed + len(chunk.data) / (rate * 1000) if rate else 0.0
        part = rate * 100  # at rate 0 parts are empty: nothing passes, and the end is never seen
        while len(chunk.data) > part:
            await place.sleep(PART_S)
            owed -= PART_S
            passing, chunk.data = chunk.data[:part], chunk.data[part:]
            await place.send(Chunk(passing, chunk.time))
        start = place.now()
        await place.sleep(owed)
        return owed - (place.now() - start)
