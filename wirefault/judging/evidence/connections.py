"""What the front's record of a subject's connections shows of a toxic. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wirefault.history.events import ConnectionEnded, Exchange
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.toxiproxy.toxics import toxic
from wirefault.toxiproxy.toxics.observed import ObservedConnection


def shown_by_connections(
    planned: PlannedToxic, connections: Iterable[ConnectionEnded], exchanges: Sequence[Exchange]
) -> bool | None:
    """Whether one of the connections that crossed the toxic shows it; None where none of them can tell.

    ``exchanges``: those of the same link and attempt.
    """
    try:
        known = toxic(planned.kind)
        attributes = known.complete(planned.attributes)
    except ValueError:  # this version knows no such toxic
        return None
    shown = [
        known.shown_by(planned.stream, attributes, _observed(connection, exchanges))
        for connection in connections
    ]
    if True in shown:
        return True
    return None if not shown or None in shown else False


def handshake_crossed(connections: Iterable[ConnectionEnded], start: float, end: float) -> bool:
    """Whether a TLS connection was there between these times, in seconds since the epoch.

    Of a request that never arrived nothing else tells whether it was to go over TLS.
    """
    return any(
        connection.tls and connection.opened < end and connection.t > start for connection in connections
    )


def _observed(connection: ConnectionEnded, exchanges: Sequence[Exchange]) -> ObservedConnection:
    """The connection, with what the gateway had on its link in that time: which of several connections an
    exchange came by is not recorded, so that all of them count."""
    meanwhile = [
        exchange
        for exchange in exchanges
        if exchange.start < connection.t and exchange.start + exchange.ms / 1000 > connection.opened
    ]
    return ObservedConnection(
        ms=connection.ms,
        first_byte_ms=connection.first_byte_ms,
        sent=connection.sent,
        received=connection.received,
        by_proxy=connection.ended_by == "proxy",
        how=connection.how,
        tls=connection.tls,
        gateway_complete_request=any(exchange.request_complete for exchange in meanwhile),
        gateway_complete_reply=any(exchange.reply_complete for exchange in meanwhile),
        gateway_ms=max((exchange.ms for exchange in meanwhile), default=0.0),
    )
