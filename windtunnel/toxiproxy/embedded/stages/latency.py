"""latency: each chunk waits latency +/- jitter from when it was read, one after the other."""

from __future__ import annotations

import random

from windtunnel.toxiproxy.embedded.stages.base import Interrupted, Place, Stage, milliseconds


class Latency(Stage):
    kind = "latency"
    struct = "LatencyToxic"
    fields = ("latency", "jitter")
    buffer = 1024

    async def run(self, place: Place) -> None:
        while (chunk := await place.receive()) is not None:
            wait = self._delay() - (place.now() - chunk.time)
            try:
                await place.sleep(wait)
            except Interrupted:
                await place.send(chunk)
                raise
            chunk.time += wait
            await place.send(chunk)
        place.close()

    def _delay(self) -> float:
        delay, jitter = self.attributes["latency"], self.attributes["jitter"]
        if jitter > 0:
            # Not the lab's dice: a draw of its own for each chunk, as the real server makes
            delay += random.randrange(jitter * 2) - jitter
        return milliseconds(delay)
