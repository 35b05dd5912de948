"""down: the proxy is disabled. A state of the proxy, not a toxic on the server."""

from __future__ import annotations

from collections.abc import Mapping

from windtunnel.toxiproxy.toxics.base import ObservedTry, Toxic


class Down(Toxic):
    kind = "down"
    meaning = "nothing listens: connections are refused, open ones are closed"
    has_stream = False

    def observed(self, stream: str, attributes: Mapping[str, int], sighting: ObservedTry) -> bool:
        """The client's connection was refused, and nothing reached the gateway."""
        return sighting.client_error == "connection_refused" and not sighting.gateway_complete_request
