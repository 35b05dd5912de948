"""limit_data: closes the connection after a number of bytes."""

from __future__ import annotations

from collections.abc import Mapping

from wirefault.core.caller_errors import CLOSED
from wirefault.toxiproxy.toxics.base import (
    Attribute,
    CrossedRequest,
    ObservedConnection,
    ObservedTry,
    Toxic,
    ToxicStub,
    UnansweredConnection,
)

_CUT_SHORT = ("connection_closed", "connection_reset", "bad_reply")


class LimitDataToxic(Toxic):
    kind = "limit_data"
    meaning = "closes the connection after a number of bytes"
    main = "bytes"
    attributes = (Attribute("bytes", "bytes", 20, 1_000_000_000, "bytes that pass before the close"),)
    color = "#aaaa00"
    can_cause = CLOSED | {"bad_reply"}
    lets_requests_pass = True

    def observed(self, stream: str, attributes: Mapping[str, int], tried: ObservedTry) -> bool:
        """The client saw the connection end early; downstream, the reply was longer than the limit.

        With TLS the limit also counts the handshake's bytes: a low limit keeps the request from the gateway,
        in either stream. A client that accepts a cut reply as complete (``requests``, cut inside the headers)
        shows nothing unless its caller checks the body (``bad_reply``).
        """
        cut_short = tried.client_failed and tried.client_error in _CUT_SHORT and tried.stopped(stream)
        long_enough = stream == "upstream" or bool(tried.tls) or tried.reply_bytes > attributes["bytes"]
        return cut_short and long_enough

    def shown_by(
        self, stream: str, attributes: Mapping[str, int], connection: ObservedConnection
    ) -> bool | None:
        """The proxy closed it at exactly the limit; upstream, the subject had sent more than the limit."""
        limit = attributes["bytes"]
        cut = connection.bytes_sent > limit if stream == "upstream" else connection.received == limit
        return connection.by_proxy and cut

    def acted_on(self, stream: str, attributes: Mapping[str, int], crossed: CrossedRequest) -> bool:
        """Downstream: the rest of the reply does not pass."""
        return stream == "downstream" and crossed.reply_bytes > attributes["bytes"]

    def ended(self, stream: str, attributes: Mapping[str, int], connection: UnansweredConnection) -> bool:
        """Upstream: no connection outlasts its limit."""
        return stream == "upstream" and connection.received == attributes["bytes"]

    async def pipe(self, stub: ToxicStub) -> None:
        while (chunk := await stub.receive()) is not None:
            chunk.data = chunk.data[: max(0, stub.attributes["bytes"] - stub.bytes_passed)]
            if chunk.data:
                stub.bytes_passed += len(chunk.data)
                await stub.send(chunk)
            if stub.bytes_passed >= stub.attributes["bytes"]:
                break
        stub.close()
