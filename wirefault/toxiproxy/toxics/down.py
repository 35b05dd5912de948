"""down: the proxy is disabled. A state of the proxy, no toxic of the server."""

from __future__ import annotations

from collections.abc import Mapping

from wirefault.core.caller_errors import CLOSED
from wirefault.toxiproxy.toxics.base import ObservedConnection, ObservedTry, Toxic


class DownToxic(Toxic):
    kind = "down"
    meaning = "nothing listens: connections are refused, open ones are closed"
    has_stream = False
    color = "#8f98a3"
    can_cause = CLOSED | {"refused"}

    def observed(self, stream: str, attributes: Mapping[str, int], tried: ObservedTry) -> bool:
        """The client's connection was refused and nothing reached the gateway, or it waited for one, or the
        proxy cut it off by going down."""
        refused = tried.client_error == "connection_refused" and not tried.gateway_complete_request
        cut_off = tried.in_progress and tried.client_error in ("connection_closed", "connection_reset")
        return refused or cut_off or tried.client_waited

    def shown_by(
        self, stream: str, attributes: Mapping[str, int], connection: ObservedConnection
    ) -> bool | None:
        """The proxy could not be dialled."""
        return connection.how == "refused"
