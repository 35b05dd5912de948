"""A connection on its way, and what the history says of it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from wirefault.gateway.intercept.arrival import Arrival
from wirefault.gateway.intercept.first_bytes import TLS_RECORD
from wirefault.gateway.intercept.guide import Refused, Road
from wirefault.gateway.intercept.lane_state import ArmedAttempt
from wirefault.gateway.intercept.splice import Carried
from wirefault.history.events import ConnectionEnded


@dataclass(eq=False)
class Passage:
    """``led``: where to. ``attempt``: in progress when it came, if one was. ``record``: once it is made."""

    arrival: Arrival
    led: Road | Refused
    carried: Carried
    attempt: ArmedAttempt | None
    record: asyncio.Future[None] | None = None

    def as_event(self, attempt: ArmedAttempt, ended: float) -> ConnectionEnded:
        """``ended`` as ``time.perf_counter`` gives it."""
        arrival, carried, led = self.arrival, self.carried, self.led
        began = arrival.first_sent or carried.first_sent or arrival.began
        first = carried.first_received
        return ConnectionEnded(
            t=time.time(),
            link=led.link,
            episode=attempt.episode,
            attempt=attempt.attempt,
            opened=arrival.opened,
            ms=(ended - began) * 1000,
            first_byte_ms=None if first is None else max(first - began, 0.0) * 1000,
            sent=carried.sent,
            received=carried.received,
            ended_by=carried.ended_by,
            how=carried.how,
            tls=carried.tls,
            host=arrival.host,
            port=arrival.port,
            way=arrival.way,
            tunnelled=isinstance(led, Road) and led.tunnelled,
            why=led.why,
            lab_failed=isinstance(led, Refused) and led.lab_failed,
        )


def nothing_of(arrival: Arrival) -> Carried:
    """What went through of a connection that was refused."""
    is_tls = arrival.early[:1] == TLS_RECORD
    return Carried(sent=len(arrival.early), ended_by="proxy", how="refused", tls=is_tls)
