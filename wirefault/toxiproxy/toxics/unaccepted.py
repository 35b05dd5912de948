"""unaccepted: new connections are never accepted, as by a server whose queue is full."""

from __future__ import annotations

from collections.abc import Mapping

from wirefault.core.caller_errors import TIMEOUT
from wirefault.toxiproxy.toxics.base import ObservedConnection, ObservedTry, Toxic


class UnacceptedToxic(Toxic):
    kind = "unaccepted"
    meaning = "never accepts new connections: their clients wait, until their limit for connecting ends them"
    has_stream = False
    in_toxiproxy = False
    holds_connections = True
    color = "#5b3a8c"
    can_cause = TIMEOUT

    def observed(self, stream: str, attributes: Mapping[str, int], tried: ObservedTry) -> bool:
        """The client's limit for connecting ended the try, and the gateway has no request of it.

        Plain HTTP and fresh TLS look the same, since no byte passed. A kept-alive connection that was open
        before works on, and shows nothing.
        """
        waited = tried.client_failed and tried.client_error == "connect_timeout"
        return waited and not tried.gateway_complete_request

    def shown_by(
        self, stream: str, attributes: Mapping[str, int], connection: ObservedConnection
    ) -> bool | None:
        """The proxy had not accepted the ingress's connection when the subject left."""
        return connection.how == "unaccepted"
