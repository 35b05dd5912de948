"""slow_close: the end of the data is held back."""

from __future__ import annotations

from windtunnel.toxiproxy.embedded.stages.base import Place, Stage, milliseconds


class SlowClose(Stage):
    kind = "slow_close"
    struct = "SlowCloseToxic"
    fields = ("delay",)

    async def run(self, place: Place) -> None:
        while (chunk := await place.receive()) is not None:
            await place.send(chunk)
        await place.sleep(milliseconds(self.attributes["delay"]))
        place.close()
