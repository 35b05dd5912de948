"""Times and strengths of an episode's toxics, and their signatures in intercepted connections. Pure."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from wirefault.core.caller_errors import CLOSED
from wirefault.history.events import ConnectionEnded, ConnectionUnanswered, Event, Exchange, ToxicsChanged
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.toxiproxy.toxics import toxic
from wirefault.toxiproxy.toxics.base import (
    NOISE_MS,
    CrossedRequest,
    ObservedConnection,
    ObservedTry,
    UnansweredConnection,
)

# A connection that is closed at once fails within this time.
_CLOSED_AT_ONCE_MS = 1.0


class ToxicTime(NamedTuple):
    """A period in which a toxic was in place with these attributes, in seconds since the epoch.

    Without a recorded change it starts with the attempt (minus infinity) and lasts to its end (infinity).
    """

    attributes: Mapping[str, int]
    begun: float = -math.inf  # the manager began to add it
    ending: float = math.inf  # the manager began to remove or change it
    gone: float = math.inf  # it was confirmed to be removed or changed
    since: float = -math.inf  # it was confirmed to be in place

    def meets(self, start: float, end: float) -> bool:
        """Return whether a request from ``start`` to ``end`` may have met it."""
        return start < self.gone and end > self.begun

    def covers(self, start: float, end: float) -> bool:
        """Return whether it was in place from ``start`` to ``end``."""
        return self.since <= start and end <= self.ending


class ToxicTimes:
    """The times of one episode's toxics. The events may be in any order."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        changes = [event for event in events if isinstance(event, ToxicsChanged)]
        self._changes = sorted(changes, key=lambda change: change.t)

    def of(self, attempt: int, planned: PlannedToxic) -> list[ToxicTime]:
        """Return the toxic's times; none if its attempt ended before it started."""
        at_start = planned.as_at(0.0, 1, 1)
        times = [] if at_start is None else [ToxicTime(at_start.attributes)]
        for change in (change for change in self._changes if change.attempt == attempt):
            started = next((t for t in change.started if _identity(t) == _identity(planned)), None)
            over = started or any(_identity(toxic) == _identity(planned) for toxic in change.ended)
            if over and times and times[-1].gone == math.inf:
                times[-1] = times[-1]._replace(ending=change.begun, gone=change.t)
            if started is not None:
                times.append(ToxicTime(started.attributes, begun=change.begun, since=change.t))
        return times


def _identity(toxic: PlannedToxic) -> Hashable:
    """Return the same for every strength of a planned toxic, different from all others in its attempt."""
    return toxic.link, toxic.name, toxic.span, toxic.turn


def cut_short(observed: ObservedTry, left_ms: float) -> ObservedTry:
    """Return the try with its client's patience cut to ``left_ms``, the rest of the toxic's time.

    Removing a toxic ends its delay and closes a held connection, so its signature cannot last longer.
    """
    minimum_ms = _CLOSED_AT_ONCE_MS if observed.client_failed else NOISE_MS
    return replace(observed, client_timeout_ms=min(observed.patience_ms, max(left_ms, minimum_ms)))


def shown_by_connections(
    planned: PlannedToxic, connections: Iterable[ConnectionEnded], exchanges: Sequence[Exchange]
) -> bool | None:
    """Return whether a connection that crossed the toxic shows it; None if the connections cannot tell.

    ``exchanges``: the exchanges on the same link in the same attempt.
    """
    try:
        known = toxic(planned.kind)
        attributes = known.complete(planned.attributes)
    except ValueError:  # this version does not know the toxic
        return None
    verdicts = [
        known.shown_by(planned.stream, attributes, _observed(connection, exchanges))
        for connection in connections
    ]
    if True in verdicts:
        return True
    return None if not verdicts or None in verdicts else False


# the gateway may notice the close before the ingress does
_TOLERANCE_S = 0.1


def has_failed(
    connection: ConnectionEnded, toxics: Iterable[PlannedToxic], exchanges: Sequence[Exchange]
) -> bool:
    """Whether the connection failed its client: without an answer, by its end, or by a close before the end
    of a reply.

    ``toxics`` and ``exchanges``: those of the link and attempt.
    """
    if connection.how in ("rst", "refused", "unaccepted", "unresolved"):
        return True
    if connection.received == 0:
        return connection.sent > 0
    return connection.ended_by == "proxy" and (
        any(
            shown_by_connections(planned, [connection], exchanges) and toxic(planned.kind).can_cause & CLOSED
            for planned in toxics
        )
        or any(
            exchange.client_left
            and not exchange.reply_complete
            and connection.opened < exchange.start < connection.t
            and connection.t < exchange.start + exchange.ms / 1000 + _TOLERANCE_S
            for exchange in exchanges
        )
    )


def acted(
    planned: PlannedToxic,
    times: Sequence[ToxicTime],
    exchanges: Sequence[Exchange],
    unanswered: Sequence[ConnectionUnanswered],
) -> bool:
    """Whether the toxic must have acted on what the gateway recorded of its link in its attempt: all bytes
    crossed the toxic, which the manager had verified to be in place.
    """
    try:
        known = toxic(planned.kind)
        return any(
            known.acted_on(planned.stream, known.complete(time.attributes), _crossed(exchange))
            for time in times
            for exchange in exchanges
            if time.covers(exchange.start, exchange.start + exchange.ms / 1000)
        ) or any(
            known.ended(planned.stream, known.complete(time.attributes), _ended(connection, time))
            for time in times
            for connection in unanswered
            if time.since <= connection.t - connection.ms / 1000 < time.ending
        )
    except ValueError:  # this version does not know the toxic
        return False


def _ended(connection: ConnectionUnanswered, time: ToxicTime) -> UnansweredConnection:
    after_toxic_ms = max(connection.t - time.ending, 0.0) * 1000
    return UnansweredConnection(
        connection.ms - after_toxic_ms, connection.received, reset=connection.how == "rst"
    )


def _crossed(exchange: Exchange) -> CrossedRequest:
    return CrossedRequest(exchange.request_bytes, exchange.reply_bytes)


def _observed(connection: ConnectionEnded, exchanges: Sequence[Exchange]) -> ObservedConnection:
    """Return the connection, combined with its link's exchanges in that time.

    All of them count, because the history does not record which connection an exchange used.
    """
    meanwhile = [
        exchange
        for exchange in exchanges
        if exchange.start < connection.t and exchange.start + exchange.ms / 1000 > connection.opened
    ]
    return ObservedConnection(
        ms=connection.ms,
        first_byte_ms=connection.first_byte_ms,
        last_byte_ms=connection.last_byte_ms,
        bytes_sent=connection.sent,
        received=connection.received,
        by_proxy=connection.ended_by == "proxy",
        how=connection.how,
        tls=connection.tls,
        gateway_complete_request=any(exchange.request_complete for exchange in meanwhile),
        gateway_complete_reply=any(exchange.reply_complete for exchange in meanwhile),
        gateway_ms=max((exchange.ms for exchange in meanwhile), default=0.0),
        replies=len(meanwhile),
    )
