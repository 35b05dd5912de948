"""cut_after: closes a connection some time after it was opened, whatever it carried."""

from __future__ import annotations

from collections.abc import Mapping

from wirefault.core.caller_errors import CLOSED
from wirefault.toxiproxy.toxics.base import (
    ABOUT,
    HOUR_MS,
    Attribute,
    ObservedConnection,
    ObservedTry,
    Toxic,
    ToxicStub,
    UnansweredConnection,
    seconds_from_ms,
)

_CUT_SHORT = ("connection_closed", "connection_reset", "bad_reply")


class CutAfterToxic(Toxic):
    kind = "cut_after"
    meaning = (
        "closes each connection a fixed time after it was opened, in the middle of a reply or between two"
    )
    main = "age"
    attributes = (Attribute("age", "ms", 2000, HOUR_MS, "age at which a connection is closed"),)
    has_stream = False
    in_toxiproxy = False
    color = "#994455"
    can_cause = CLOSED | {"bad_reply"}

    def observed(self, stream: str, attributes: Mapping[str, int], tried: ObservedTry) -> bool:
        """The client saw the connection end before the reply did, and the gateway did not end it.

        The try lasted about the age. On a kept-alive connection, which is older than the try, it may be
        shorter: then the gateway saw the client leave, or the connection used TLS. A close between two tries
        shows nothing if the client opens a new connection.
        """
        kept_alive = tried.tls == "kept" or tried.gateway_client_left
        old_enough = kept_alive or tried.client_ms >= ABOUT * attributes["age"]
        cut_short = tried.client_failed and tried.client_error in _CUT_SHORT
        by_gateway = tried.gateway_complete_request and not (
            tried.gateway_complete_reply or tried.gateway_client_left
        )
        return old_enough and cut_short and not by_gateway

    def shown_by(
        self, stream: str, attributes: Mapping[str, int], connection: ObservedConnection
    ) -> bool | None:
        """The proxy closed it at about that age; unknown where a complete reply may have ended it."""
        closed = connection.by_proxy and connection.how == "fin"
        if not closed or connection.ms < ABOUT * attributes["age"]:
            return False
        return None if connection.gateway_complete_reply else True

    def ended(self, stream: str, attributes: Mapping[str, int], connection: UnansweredConnection) -> bool:
        """No connection outlasts its age."""
        return connection.ms >= ABOUT * attributes["age"]

    async def pipe(self, stub: ToxicStub) -> None:
        end = stub.opened + seconds_from_ms(stub.attributes["age"])
        while (left := end - stub.now()) > 0:
            chunk = await stub.receive(left)
            if chunk is None:  # the input's end, or the time is over
                break
            await stub.send(chunk)
        stub.close()
