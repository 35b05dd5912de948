"""When each toxic stood in its attempt, in which dose, and what a try can show of it then. Pure."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from wirefault.history.events import ConnectionEnded, Event, Exchange, ToxicsChanged
from wirefault.toxiproxy.planned import PlannedToxic
from wirefault.toxiproxy.toxics import toxic
from wirefault.toxiproxy.toxics.base import NOISE_MS, ObservedConnection, ObservedTry

# A connection that is closed at once fails within this time.
_CLOSED_AT_ONCE_MS = 1.0


class ToxicTime(NamedTuple):
    """A time in which a toxic stood with these ``attributes``, in seconds since the epoch.

    From ``begun`` on it may have stood; the manager began to remove or change it at ``ending``, and it was
    seen to be done at ``gone``. Where its attempt began or ended with it they are infinite.
    """

    attributes: Mapping[str, int]
    begun: float = -math.inf
    ending: float = math.inf
    gone: float = math.inf

    def meets(self, start: float, end: float) -> bool:
        """Whether what lasted from ``start`` to ``end`` may have met it."""
        return start < self.gone and end > self.begun


class ToxicTimes:
    """What the manager recorded of the toxics of one episode, whose events may come in any order."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        changes = [event for event in events if isinstance(event, ToxicsChanged)]
        self._changes = sorted(changes, key=lambda change: change.t)

    def of(self, attempt: int, planned: PlannedToxic) -> list[ToxicTime]:
        """When it stood; empty for one whose time did not come before its attempt's end."""
        at_start = planned.as_at(0.0, 1, 1)
        times = [] if at_start is None else [ToxicTime(at_start.attributes)]
        for change in (change for change in self._changes if change.attempt == attempt):
            started = next((t for t in change.started if _identity(t) == _identity(planned)), None)
            over = started or any(_identity(toxic) == _identity(planned) for toxic in change.ended)
            if over and times and times[-1].gone == math.inf:
                times[-1] = times[-1]._replace(ending=change.begun, gone=change.t)
            if started is not None:
                times.append(ToxicTime(started.attributes, begun=change.begun))
        return times


def _identity(toxic: PlannedToxic) -> Hashable:
    """What is the same in every dose of a planned toxic, and in no other of its attempt."""
    return toxic.link, toxic.name, toxic.span, toxic.turn


def cut_short(seen: ObservedTry, left_ms: float) -> ObservedTry:
    """The try as if its client had waited no longer than the toxic lasted, which was ``left_ms`` more.

    A delay is over when its toxic is removed, and a held connection is closed: by the signatures of both, the
    client waited for them that long at most.
    """
    least_ms = _CLOSED_AT_ONCE_MS if seen.client_failed else NOISE_MS
    return replace(seen, client_timeout_ms=min(seen.patience_ms, max(left_ms, least_ms)))


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
