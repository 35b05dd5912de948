"""slicer: each chunk is cut into pieces, with a pause after each."""

from __future__ import annotations

import random
from collections.abc import Iterator

from windtunnel.toxiproxy.embedded.decode import INT
from windtunnel.toxiproxy.embedded.stages.base import Chunk, Interrupted, Place, Stage, microseconds


class Slicer(Stage):
    kind = "slicer"
    struct = "SlicerToxic"
    fields = ("average_size", "size_variation", "delay")
    integer = INT

    async def run(self, place: Place) -> None:
        while (chunk := await place.receive()) is not None:
            for start, end in self._cuts(len(chunk.data)):
                await place.send(Chunk(chunk.data[start:end], chunk.time))
                try:
                    await place.sleep(microseconds(self.attributes["delay"]))
                except Interrupted:
                    await place.send(Chunk(chunk.data[end:], chunk.time))
                    raise
        place.close()

    def _cuts(self, size: int) -> Iterator[tuple[int, int]]:
        """Halves, about, until a piece is of the average size, give or take the variation."""
        # with sizes outside of these bounds the real server ends with a crash
        average = max(1, self.attributes["average_size"])
        variation = min(self.attributes["size_variation"], average)
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
