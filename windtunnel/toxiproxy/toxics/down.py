"""down: the proxy is disabled. A state of the proxy, no toxic of the server."""

from __future__ import annotations

from collections.abc import Mapping

from windtunnel.core.caller_errors import CLOSED
from windtunnel.toxiproxy.toxics.base import ObservedTry, Toxic


class DownToxic(Toxic):
    kind = "down"
    meaning = "nothing listens: connections are refused, open ones are closed"
    has_stream = False
    color = "#8f98a3"
    can_cause = CLOSED | {"refused"}

    def observed(self, stream: str, attributes: Mapping[str, int], tried: ObservedTry) -> bool:
        """The client's connection was refused, and nothing reached the gateway."""
        return tried.client_error == "connection_refused" and not tried.gateway_complete_request
