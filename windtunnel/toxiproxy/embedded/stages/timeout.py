"""timeout: drops all data; closes after a time without any (0: never). Its removal closes too."""

from __future__ import annotations

from windtunnel.toxiproxy.embedded.stages.base import Place, Stage, milliseconds


class Timeout(Stage):
    kind = "timeout"
    struct = "TimeoutToxic"
    fields = ("timeout",)
    closes_when_removed = True

    async def run(self, place: Place) -> None:
        timeout = milliseconds(self.attributes["timeout"])
        # the time starts anew with each chunk that is dropped
        while await place.receive(timeout if timeout > 0 else None) is not None:
            pass
        place.close()
