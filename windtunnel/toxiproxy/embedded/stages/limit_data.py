"""limit_data: the connection is closed once so many bytes have passed."""

from __future__ import annotations

from collections.abc import Mapping

from windtunnel.toxiproxy.embedded.stages.base import Place, Stage


class LimitData(Stage):
    kind = "limit_data"
    struct = "LimitDataToxic"
    fields = ("bytes",)

    def __init__(self, attributes: Mapping[str, int]) -> None:
        super().__init__(attributes)
        self._passed = 0  # kept when the limit is changed

    async def run(self, place: Place) -> None:
        while (chunk := await place.receive()) is not None:
            chunk.data = chunk.data[: max(0, self.attributes["bytes"] - self._passed)]
            if chunk.data:
                self._passed += len(chunk.data)
                await place.send(chunk)
            if self._passed >= self.attributes["bytes"]:
                break
        place.close()
