"""down: the proxy is disabled, a state of the proxy and not a toxic of the server."""

from __future__ import annotations

from collections.abc import Mapping

from wirefault.core.caller_errors import CLOSED
from wirefault.toxiproxy.toxics.base import ObservedConnection, ObservedTry, Toxic


class DownToxic(Toxic):
    kind = "down"
    meaning = "disables the proxy: refuses connections and closes open ones"
    has_stream = False
    of_server = False
    color = "#8f98a3"
    can_cause = CLOSED | {"refused"}

    def observed(self, stream: str, attributes: Mapping[str, int], tried: ObservedTry) -> bool:
        """The connection was refused and nothing reached the gateway, the client waited for a new one, or the
        proxy closed it."""
        refused = tried.client_error == "connection_refused" and not tried.gateway_complete_request
        cut_off = tried.in_progress and tried.client_error in ("connection_closed", "connection_reset")
        return refused or cut_off or tried.client_waited

    def shown_by(
        self, stream: str, attributes: Mapping[str, int], connection: ObservedConnection
    ) -> bool | None:
        """The proxy could not be dialled."""
        return connection.how == "refused"
