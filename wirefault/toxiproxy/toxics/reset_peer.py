"""reset_peer: resets the connection (TCP RST) some time after the first data or EOF."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping

from wirefault.core.caller_errors import CLOSED, TIMEOUT
from wirefault.toxiproxy.toxics.base import (
    ABOUT,
    HOUR_MS,
    Attribute,
    CrossedRequest,
    ObservedConnection,
    ObservedTry,
    Toxic,
    ToxicStub,
    UnansweredConnection,
    seconds_from_ms,
)

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_ENDS = ("connection_reset", "connection_closed")


class ResetToxic(Toxic):
    kind = "reset_peer"
    meaning = "resets the connection after a delay"
    main = "timeout"
    attributes = (Attribute("timeout", "ms", 0, HOUR_MS, "time from the first data to the reset"),)
    color = "#ffaabb"
    can_cause = CLOSED | TIMEOUT

    def observed(self, stream: str, attributes: Mapping[str, int], tried: ObservedTry) -> bool:
        """A reset or EOF after about N, or the client's read timeout if that is shorter.

        A client that is still sending gets the reset once on a write; most then read the reply and find EOF.
        On fresh TLS the handshake is the first data: a short N keeps the request from the gateway, in either
        stream.
        """
        resets_first = attributes["timeout"] < tried.patience_ms
        limit_ms = min(attributes["timeout"], tried.patience_ms)
        return (
            tried.client_failed
            and (tried.client_error in _ENDS if resets_first else tried.gave_up)
            and tried.client_ms >= ABOUT * limit_ms
            and tried.stopped(stream)
        )

    def shown_by(
        self, stream: str, attributes: Mapping[str, int], connection: ObservedConnection
    ) -> bool | None:
        """The proxy reset it after about N; a reset by the gateway is never passed on as a reset."""
        reset = connection.by_proxy and connection.how == "rst"
        return reset and connection.ms >= ABOUT * attributes["timeout"]

    def acted_on(self, stream: str, attributes: Mapping[str, int], crossed: CrossedRequest) -> bool:
        """Downstream: the reply is the data after which it resets the connection, and does not pass."""
        return stream == "downstream" and crossed.reply_bytes > 0

    def ended(self, stream: str, attributes: Mapping[str, int], connection: UnansweredConnection) -> bool:
        """Upstream: only it resets a connection towards the gateway, which had no byte to refuse."""
        return stream == "upstream" and connection.reset and connection.received == 0

    def on_accept(self, sockets: tuple[socket.socket, socket.socket]) -> None:
        # Set on new connections alone: as in the real server, one that was open before the toxic is closed
        # without a reset.
        for end in sockets:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)

    async def pipe(self, stub: ToxicStub) -> None:
        seconds = seconds_from_ms(stub.attributes["timeout"])
        await stub.receive()
        await stub.sleep_uninterrupted(seconds)
        stub.close()
