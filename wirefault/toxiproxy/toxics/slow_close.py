"""slow_close: delays the close of the connection."""

from __future__ import annotations

from collections.abc import Mapping

from wirefault.toxiproxy.toxics.base import HOUR_MS, Attribute, ObservedTry, Toxic, ToxicStub, seconds_from_ms


class SlowCloseToxic(Toxic):
    kind = "slow_close"
    meaning = "delays the close of the connection"
    main = "delay"
    attributes = (Attribute("delay", "ms", 300, HOUR_MS, "delay of the close"),)
    color = "#bbcc33"
    lets_requests_pass = True

    def observed(self, stream: str, attributes: Mapping[str, int], tried: ObservedTry) -> bool:
        """Never: an HTTP client knows where its reply ends and does not wait for the close."""
        return False

    def at_share(self, attributes: Mapping[str, int], share: float) -> dict[str, int]:
        return {"delay": round(attributes["delay"] * share)}

    async def pipe(self, stub: ToxicStub) -> None:
        while (chunk := await stub.receive()) is not None:
            await stub.send(chunk)
        await stub.sleep(seconds_from_ms(stub.attributes["delay"]))
        stub.close()
