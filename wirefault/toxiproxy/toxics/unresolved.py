"""unresolved: the name of a link's server does not resolve; the lab's tap answers so, no data is changed."""

from __future__ import annotations

from collections.abc import Mapping

from wirefault.toxiproxy.toxics.base import Attribute, ObservedConnection, ObservedTry, Toxic


class UnresolvedToxic(Toxic):
    kind = "unresolved"
    meaning = (
        "makes the name of the link's server unresolvable: under the namespace tap DNS fails, under the proxy"
        " tap the proxy answers 502, as one that cannot resolve it; by address it cannot be armed"
    )
    main = "code"
    attributes = (
        Attribute(
            "code",
            "DNS code",
            2,
            3,
            "2: SERVFAIL, a temporary failure; 3: NXDOMAIN, an unknown name",
            minimum=2,
        ),
    )
    has_stream = False
    in_toxiproxy = False
    color = "#117733"
    can_cause = frozenset({"refused", "http_5xx"})

    def observed(self, stream: str, attributes: Mapping[str, int], tried: ObservedTry) -> bool:
        """The client made no connection, and the gateway has no request of the try.

        It is the same for plain HTTP and fresh TLS; a kept-alive connection needs no name, and works on.
        The ingress records each query and each ``CONNECT`` that it failed. Addresses and names of a hosts
        file need no DNS, and are not affected.
        """
        return tried.client_error == "connection_refused" and not tried.gateway_complete_request

    def shown_by(
        self, stream: str, attributes: Mapping[str, int], connection: ObservedConnection
    ) -> bool | None:
        """The ingress answered that the name does not resolve."""
        return connection.how == "unresolved"
