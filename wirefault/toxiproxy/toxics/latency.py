"""latency: delays each chunk of data, counted from when it was read."""

from __future__ import annotations

import random
from collections.abc import Mapping

from wirefault.core.caller_errors import TIMEOUT
from wirefault.toxiproxy.toxics.base import (
    HOUR_MS,
    Attribute,
    CrossedRequest,
    Interrupted,
    ObservedConnection,
    ObservedTry,
    Toxic,
    ToxicStub,
    seconds_from_ms,
)


class LatencyToxic(Toxic):
    kind = "latency"
    meaning = "delays all data by latency +/- jitter"
    main = "latency"
    attributes = (
        Attribute("latency", "ms", 300, HOUR_MS, "the delay of each chunk"),
        Attribute("jitter", "ms", 0, HOUR_MS, "maximum variation of the delay, up and down"),
    )
    color = "#eedd88"
    can_cause = TIMEOUT
    lets_requests_pass = True
    buffer_chunks = 1024

    def problem(self, values: Mapping[str, int]) -> str | None:
        if values["jitter"] > values["latency"]:
            return f"jitter must be at most latency ({values['latency']}): a delay cannot be negative"
        return None

    def observed(self, stream: str, attributes: Mapping[str, int], tried: ObservedTry) -> bool:
        """The client's time minus the gateway's is about the minimum delay, or the client's timeout.

        On fresh TLS it is twice the delay, since the handshake is delayed too.
        """
        return tried.delayed_by(tried.crossings * (attributes["latency"] - attributes["jitter"]))

    def shown_by(
        self, stream: str, attributes: Mapping[str, int], connection: ObservedConnection
    ) -> bool | None:
        """The first byte was late by about the minimum delay."""
        return connection.delayed_by(attributes["latency"] - attributes["jitter"])

    def acted_on(self, stream: str, attributes: Mapping[str, int], crossed: CrossedRequest) -> bool:
        return crossed.bytes_in(stream) > 0 and attributes["latency"] > attributes["jitter"]

    def least_ms(self, attributes: Mapping[str, int], reply_bytes: int) -> float:
        return float(attributes["latency"] - attributes["jitter"])

    def at_share(self, attributes: Mapping[str, int], share: float) -> dict[str, int]:
        return {name: round(value * share) for name, value in attributes.items()}

    def fixed_delay_ms(self, attributes: Mapping[str, int]) -> int:
        return attributes["latency"]

    def jitter_ms(self, attributes: Mapping[str, int]) -> int:
        return attributes["jitter"]

    async def pipe(self, stub: ToxicStub) -> None:
        while (chunk := await stub.receive()) is not None:
            wait = _delay(stub.attributes) - (stub.now() - chunk.time)
            try:
                await stub.sleep(wait)
            except Interrupted:
                await stub.send(chunk)
                raise
            chunk.time += wait
            await stub.send(chunk)
        stub.close()


def _delay(attributes: Mapping[str, int]) -> float:
    """In s."""
    delay, jitter = attributes["latency"], attributes["jitter"]
    if jitter > 0:
        # Drawn for each chunk, not from the lab's seed: the real server does the same.
        delay += random.randrange(jitter * 2) - jitter
    return seconds_from_ms(delay)
