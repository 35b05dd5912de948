"""timeout: stops all data and closes the connection after a time."""

from __future__ import annotations

from collections.abc import Mapping

from wirefault.core.caller_errors import CLOSED, TIMEOUT
from wirefault.toxiproxy.toxics.base import (
    ABOUT,
    HOUR_MS,
    NOISE_MS,
    Attribute,
    CrossedRequest,
    ObservedConnection,
    ObservedTry,
    Toxic,
    ToxicStub,
    UnansweredConnection,
    seconds_from_ms,
)


class TimeoutToxic(Toxic):
    kind = "timeout"
    meaning = "stops all data, then closes the connection (0: never closes it)"
    main = "timeout"
    attributes = (Attribute("timeout", "ms", 400, HOUR_MS, "time until the close; 0: never"),)
    color = "#ee8866"
    can_cause = CLOSED | TIMEOUT
    lets_requests_pass = True
    closes_when_removed = True

    def observed(self, stream: str, attributes: Mapping[str, int], tried: ObservedTry) -> bool:
        """The client fails after about M; upstream no complete request arrived, downstream a reply was lost.

        On fresh TLS no request arrived, in either stream.
        """
        limit_ms = min(attributes["timeout"] or tried.patience_ms, tried.patience_ms)
        return tried.client_failed and tried.client_ms >= ABOUT * limit_ms and tried.stopped(stream)

    def shown_by(
        self, stream: str, attributes: Mapping[str, int], connection: ObservedConnection
    ) -> bool | None:
        """The subject sent data and received no byte before the connection ended."""
        return connection.stopped(stream) and connection.how in ("fin", "open") and connection.ms >= NOISE_MS

    def acted_on(self, stream: str, attributes: Mapping[str, int], crossed: CrossedRequest) -> bool:
        """Downstream: nothing of the reply passes."""
        return stream == "downstream" and crossed.reply_bytes > 0

    def ended(self, stream: str, attributes: Mapping[str, int], connection: UnansweredConnection) -> bool:
        """Upstream: no connection outlasts its time. One that its client left before may have been idle."""
        limit_ms = attributes["timeout"]
        lasted = connection.received == 0 and connection.ms >= ABOUT * limit_ms
        return stream == "upstream" and limit_ms > 0 and lasted

    def fixed_delay_ms(self, attributes: Mapping[str, int]) -> int:
        return attributes["timeout"]

    async def pipe(self, stub: ToxicStub) -> None:
        seconds = seconds_from_ms(stub.attributes["timeout"])
        # The time restarts with each dropped chunk.
        while await stub.receive(seconds if seconds > 0 else None) is not None:
            pass
        stub.close()
